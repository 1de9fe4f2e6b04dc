"""From a DataLoader to a ``values.DatasetGraph`` and to the data set's facts in the lineage; no data is read for it."""
