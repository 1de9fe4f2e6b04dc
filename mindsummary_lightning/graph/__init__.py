"""The computational graph of a PyTorch module, observed while it runs, as a ``values.Graph``."""
