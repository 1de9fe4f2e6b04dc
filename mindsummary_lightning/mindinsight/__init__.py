"""A MindInsight that works, started for a directory of runs: an environment of its own, a server, a check-up."""
