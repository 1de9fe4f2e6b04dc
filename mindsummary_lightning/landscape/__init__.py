"""Compute loss landscapes of runs from saved checkpoints, for MindInsight to draw.

The package handles the checkpoints of a run, the mathematics, and the recorded events.
"""
