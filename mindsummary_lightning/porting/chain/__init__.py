"""Records output statistics and whole tensors of training steps in torch."""
