"""``StatisticsNames``: keeps the names of the rows of a run's tables of parameters in a file beside them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from mindsummary_lightning.fileformat.row_names import ROW_NAMES_FILE, encode_row_names
from mindsummary_lightning.fileio.replace import replacement
from mindsummary_lightning.reading.parameter_tables import row_names
from mindsummary_lightning.recording.run_recorder import RunRecorder


class StatisticsNames:
    """The file of one run. A later fit into the run begins with its names, to which it adds what is new."""

    def __init__(self, record: RunRecorder) -> None:
        self._record = record
        self.recorded: list[str] = row_names(record.directory)[0]

    def add(self, names: Sequence[str]) -> None:
        """Replace the file if there are more names than it has; before the first table with them is written."""
        if len(names) > len(self.recorded):
            self.recorded = [*names]
            self._record.policy.attempt("the names of parameters", self._write)

    def _write(self) -> None:
        directory, mode = self._record.directory, self._record.options.mode
        os.makedirs(directory, exist_ok=True)
        # Not synced: a training step must not wait for the disk.
        with replacement(os.path.join(directory, ROW_NAMES_FILE), mode, is_synced=False) as file:
            file.write(encode_row_names(self.recorded))
