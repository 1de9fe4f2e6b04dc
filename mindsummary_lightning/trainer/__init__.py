"""Records Lightning trainings with a logger, a collector and callbacks."""
