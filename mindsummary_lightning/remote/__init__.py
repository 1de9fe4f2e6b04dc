"""Copies of runs in remote stores, made by a command beside the training. Nothing in either place is deleted."""
