"""Write values into the summary and lineage files of a run directory."""
