"""Encode and decode the bytes of summary and lineage files, and their names.

This is the only package that imports protobuf.
"""
