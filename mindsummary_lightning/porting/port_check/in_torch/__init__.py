"""The check of a port in PyTorch: hooks, autograd and the state that is given back."""
