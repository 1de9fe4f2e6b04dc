"""Read and write files of records: append, scan, salvage, truncate, replace. Payloads are opaque bytes here."""
