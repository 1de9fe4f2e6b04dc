"""Checks every module of a ported model on the original model's values."""
