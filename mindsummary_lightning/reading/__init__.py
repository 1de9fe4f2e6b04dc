"""Reads a run directory, and finds the runs in a directory."""
