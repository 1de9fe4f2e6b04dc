"""Read and write files of records, whose payloads are opaque bytes here."""
