"""The computational graph of a PyTorch module, as a ``values.Graph``.

It is observed while the module runs.
"""
