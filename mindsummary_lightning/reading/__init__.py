"""Read a run directory; find runs below a directory."""
