"""Queries over the lineage of runs, without a server.

Lineage is data, model, hyper-parameters, metrics and custom values.
"""
