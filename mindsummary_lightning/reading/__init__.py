"""Reads the files of a run, and finds all runs in a directory."""
