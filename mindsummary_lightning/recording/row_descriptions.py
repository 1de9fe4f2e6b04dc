"""Write the JSON file that names the rows of a run's statistics tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from mindsummary_lightning.fileio.replace import replacement
from mindsummary_lightning.recording.run_recorder import RunRecorder

_Row = TypeVar("_Row")


class RowDescriptions(Generic[_Row]):
    """The JSON file of a run that names the rows of its statistics tables.

    A later training that continues the run begins with the ``recorded`` rows, and adds new rows.
    """

    def __init__(
        self,
        record: RunRecorder,
        file_name: str,
        encode: Callable[[Sequence[_Row]], bytes],
        recorded: Sequence[_Row],
    ) -> None:
        self.recorded: list[_Row] = [*recorded]
        self._record = record
        self._file_name = file_name
        self._encode = encode

    def add(self, rows: Sequence[_Row]) -> None:
        """Write the file again if ``rows`` has more rows than the file.

        Call this method before the first table with new rows is written.
        """
        if len(rows) > len(self.recorded):
            self.recorded = [*rows]
            self._record.policy.attempt(f"the rows in {self._file_name}", self._write)

    def _write(self) -> None:
        directory, mode = self._record.directory, self._record.options.mode
        os.makedirs(directory, exist_ok=True)
        # Not synced: a training step must not wait for the disk.
        with replacement(os.path.join(directory, self._file_name), mode, is_synced=False) as file:
            file.write(self._encode(self.recorded))
