"""The chain of a training step, recorded in torch: batch, weights, modules, loss, gradients, update and settings."""
