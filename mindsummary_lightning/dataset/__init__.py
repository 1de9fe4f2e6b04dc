"""From a DataLoader to a ``values.DatasetGraph`` and facts of the data set.

Data are not read for it.
"""
