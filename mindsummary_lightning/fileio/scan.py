"""Read the records of a file that may be growing or truncated.

An incomplete last record is no error, because the file may still be growing: a later read continues
at the same offset. A CRC that does not match is an error, and so is an incomplete record that
complete records follow. The error has the offset of the record.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from io import FileIO
from typing import TypeVar

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import FOOTER_SIZE, OVERHEAD
from mindsummary_lightning.fileformat.records import Records
from mindsummary_lightning.fileio.blocks import BLOCK, blocks_of
from mindsummary_lightning.fileio.regular import open_regular
from mindsummary_lightning.fileio.salvage import is_record, next_record, shortage

_T = TypeVar("_T")


class RecordScanner:
    """An iterable over the payloads of a record file, in order.

    Iterate again to read the records that have been added since.

    Memory is bounded by one block and one record, and not by the size of the file: if the rest of
    the file is shorter than a record's length, the record counts as incomplete.

    Args:
        path: the file.
        offset: byte offset at which reading begins; the start of a record.
        file: the file, if it is open already; it stays open. Otherwise each iteration opens it.

    Attributes:
        offset: end of the last complete record read so far.
    """

    def __init__(self, path: str, offset: int = 0, file: FileIO | None = None) -> None:
        self.path = path
        self.offset: int = offset
        self._file = file
        # end and checksum of the last record of a block that was read
        self._last: tuple[int, bytes] | None = None

    def was_rewritten(self) -> bool:
        """Tell whether the file was rewritten or replaced since it was read."""
        if self._last is None:
            return False
        end, checksum = self._last
        try:
            with open_regular(self.path) as file:
                file.seek(end - FOOTER_SIZE)
                return file.read(FOOTER_SIZE) != checksum
        except OSError:  # as whoever reads on is told
            return False

    def __iter__(self) -> Iterator[bytes]:
        """Yield the payload of every complete record.

        Raises:
            DamagedFileError: a CRC does not match, a record is empty, or a record is incomplete and
                complete records follow; all records before it have been yielded.
            OSError: the file cannot be read, or is not a regular file.
        """
        return self.decoded(bytes)

    def decoded(self, decode: Callable[[bytes], _T]) -> Iterator[_T]:
        """Yield the decoded payload of every complete record.

        Raises:
            DamagedFileError: as in iterating, and if ``decode`` raises ``ValueError``.
            OSError: as in iterating.
        """
        for payloads in self._blocks(BLOCK):
            for payload in payloads:
                start = self.offset
                self.offset += len(payload) + OVERHEAD
                try:
                    yield decode(payload)
                except ValueError as error:
                    raise DamagedFileError(self.path, start, str(error)) from error

    # in smaller ones NumPy's calls cost too much
    def batches(self, block_size: int = 4 * BLOCK) -> Iterator[Records]:
        """Yield the payloads of consecutive records, block by block.

        After each block, ``offset`` is the end of its last record.

        Raises:
            DamagedFileError, OSError: as in iterating.
        """
        for payloads in self._blocks(block_size):
            self.offset += payloads.nbytes
            yield payloads

    def _blocks(self, block_size: int) -> Iterator[Records]:
        with contextlib.nullcontext(self._file) if self._file else open_regular(self.path) as file:
            for end, payloads in blocks_of(file, self.path, self.offset, block_size):
                self._last = end, payloads.last_checksum
                yield payloads
            size = file.seek(0, os.SEEK_END)
            following = next_record(file, self.offset + 1, size)
            # A writer may have appended several records since the last one was read: then nothing
            # is incomplete.
            if following < size and not is_record(file, self.offset):
                reason = (
                    f"{shortage(file, self.offset, size)}, but complete records follow at byte "
                    f"{following}"
                )
                raise DamagedFileError(self.path, self.offset, reason)
