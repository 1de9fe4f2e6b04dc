"""The bytes of summary and lineage files: framing, file names and codecs. The only room that imports protobuf."""
