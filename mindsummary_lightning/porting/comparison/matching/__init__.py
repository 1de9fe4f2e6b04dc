"""Pairs the tensors of two runs.

One module for each way to find them, applied in order by ``match``.
"""
