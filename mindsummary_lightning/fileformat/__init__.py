"""The bytes of summary and lineage files: framing, file names and codecs.

This is the only package that imports protobuf.
"""
