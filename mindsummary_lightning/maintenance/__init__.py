"""Verify run directories and repair their damaged files."""
