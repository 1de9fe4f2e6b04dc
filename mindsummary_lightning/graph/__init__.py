"""Record the computational graph of a PyTorch module as a ``values.Graph``.

The graph is observed while the module runs.
"""
