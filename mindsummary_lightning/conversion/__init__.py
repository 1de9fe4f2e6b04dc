"""Convert numbers, arrays, images and hyper-parameters to the frozen values a run records."""
