"""Copy runs to and from remote stores, also while a training is running.

Files are deleted neither in the source nor in the destination.
"""
