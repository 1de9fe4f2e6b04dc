"""Compares two recorded runs, and decides whether they trained alike.

If they are not, the result names the first step and the place at which they diverge.
"""
