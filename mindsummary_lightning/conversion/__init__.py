"""Convert numbers, arrays, images and hyper-parameters to frozen values.

A run records these values.
"""
