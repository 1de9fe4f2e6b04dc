"""The steps, parameters and values of a run that are recorded.

Knows torch; no Lightning, no files.
"""
