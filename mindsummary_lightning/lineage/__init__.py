"""Queries over the lineage of runs: data, model, hyper-parameters, metrics and custom values, without a server."""
