"""Judges every module of a port on the original's values; knows no framework."""
