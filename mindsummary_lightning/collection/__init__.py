"""Chooses which steps and parameters are recorded, and collects their values.

It uses torch, but neither Lightning nor files.
"""
