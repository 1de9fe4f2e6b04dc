"""Bytes in, bytes out: records appended and read, small files replaced. What payloads mean is not known here."""
