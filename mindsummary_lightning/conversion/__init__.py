"""Convert numbers, arrays, images and hyper-parameters to recordable values.

A run records these values.
"""
