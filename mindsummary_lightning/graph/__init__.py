"""From a PyTorch module and an example of its input to a ``values.Graph`` that MindInsight can draw."""
