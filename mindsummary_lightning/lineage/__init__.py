"""Lineage: what a run was made of, recorded by callbacks and queried without a server."""
