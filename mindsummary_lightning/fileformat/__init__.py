"""The bytes of summary and lineage files: framing, file names and codecs. The only place that knows protobuf."""
