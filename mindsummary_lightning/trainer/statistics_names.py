"""Writes the row names of a run's parameter tables to a file."""

from __future__ import annotations

from mindsummary_lightning.fileformat.row_names import ROW_NAMES_FILE, encode_row_names
from mindsummary_lightning.reading.parameter_tables import row_names
from mindsummary_lightning.recording.row_descriptions import RowDescriptions
from mindsummary_lightning.recording.run_recorder import RunRecorder


def statistics_names(record: RunRecorder) -> RowDescriptions[str]:
    """Make a writer for the file of row names, with the names of earlier fits."""
    return RowDescriptions(record, ROW_NAMES_FILE, encode_row_names, row_names(record.directory)[0])
