"""Chooses the steps and parameters of a run, and collects their values.

It uses torch, but neither Lightning nor files.
"""
