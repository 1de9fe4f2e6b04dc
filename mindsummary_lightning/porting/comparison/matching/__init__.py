"""Pairs of tensors of two runs: one module for each way to find them, applied in order by ``match``."""
