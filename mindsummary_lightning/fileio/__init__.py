"""Read and write files of records; the content of a record is opaque here."""
