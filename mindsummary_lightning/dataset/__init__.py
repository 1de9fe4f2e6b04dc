"""Describe the data pipeline of a DataLoader, without reading data.

The result is a ``values.DatasetGraph`` and facts of the data set.
"""
