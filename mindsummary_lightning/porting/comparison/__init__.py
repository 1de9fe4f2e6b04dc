"""Compare two recorded runs: tell whether they are the same training.

If they are not, the result names the first step and the place at which they diverge.
"""
