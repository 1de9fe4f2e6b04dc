"""Copies runs to and from remote stores, next to a running training.

Files are deleted neither in the source nor in the destination.
"""
