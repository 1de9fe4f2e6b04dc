"""Which steps, parameters and values of a training run are recorded. Knows torch; no Lightning, no files."""
