"""Copies of runs in remote stores, made by a command next to the training.

Files are deleted neither in the source nor in the destination.
"""
