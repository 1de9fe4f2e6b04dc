"""Query the lineage of runs in Python: their settings, data, models and metrics.

No server is needed. Lineage also holds custom values.
"""
