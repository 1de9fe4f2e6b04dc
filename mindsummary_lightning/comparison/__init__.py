"""Comparison of two recorded runs: whether they are the same training, and from which step and tensor on they are not."""
