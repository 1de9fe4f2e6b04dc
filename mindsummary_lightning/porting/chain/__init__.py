"""Records training steps in PyTorch: their output statistics, or whole tensors."""
