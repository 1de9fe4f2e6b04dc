"""Checks a port in PyTorch: hooks, autograd and restored state."""
