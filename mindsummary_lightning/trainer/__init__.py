"""Record Lightning trainings: the logger, the collector and the callbacks."""
