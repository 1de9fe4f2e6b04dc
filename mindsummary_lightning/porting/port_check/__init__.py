"""Checks every module of a port on the original's values, in any framework."""
