"""Loss landscapes of runs, which MindInsight draws.

The parts are the checkpoints of a run, the mathematics over them, and the recorded events.
"""
