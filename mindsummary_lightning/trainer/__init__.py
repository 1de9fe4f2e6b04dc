"""Everything that imports Lightning: the logger, the collector and the lineage callbacks."""
