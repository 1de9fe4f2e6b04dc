"""Comparison of two recorded runs: whether they are the same training, and where they part."""
