"""``FollowedFile``: the content of one summary file that may still grow.

Nothing damaged stops it: a record whose checksum is wrong and a payload that is not an event are skipped, and an
incomplete last record is read once it is complete.
"""

from __future__ import annotations

import logging
import os

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileio.salvage import read_pieces
from mindsummary_lightning.reading.file_content import FileContent
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
_MAX_DAMAGES = 300  # in a file; each costs a search, and a file of nothing else is not worth minutes


class FollowedFile(FileContent):
    """One summary file, read as far as it has been written.

    Not safe to use from several threads at once.

    Args:
        path: the file.

    Attributes:
        is_complete: whether the file ends with a complete record and no record of it was damaged.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.is_complete = True
        self._seen: tuple[int, int, int, int] | None = None  # device, inode, bytes, mtime in ns
        self._damages = 0
        self._warnings = WarnOnce(_LOG)

    @property
    def is_empty(self) -> bool:
        """Whether it had no byte when it was last read."""
        return self._seen is None or self._seen[2] == 0

    def was_rewritten(self, stat: os.stat_result) -> bool:
        """Whether the file is not merely longer than when it was last read, so that it must be read from its start.

        Args:
            stat: state of the file now.
        """
        if self._seen is None:
            return False
        device, inode, size, mtime_ns = self._seen
        is_other = (device, inode) != (stat.st_dev, stat.st_ino) or stat.st_size < max(size, self.offset)
        return is_other or (stat.st_size == size and stat.st_mtime_ns != mtime_ns and size > 0)

    def read_on(self, stat: os.stat_result) -> None:
        """Read the records that have been added.

        Args:
            stat: state of the file, taken before this call.

        Raises:
            OSError: the file cannot be read.
        """
        seen = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if seen == self._seen:
            return
        while self._damages < _MAX_DAMAGES:
            try:
                self.read_records(self._skip)
                break
            except DamagedFileError as error:
                following = _next_record(self.path, error.offset)
                if following is None:
                    break  # perhaps bytes that have not arrived yet: a network file system shows them as zeros
                self._damages += 1
                self._warnings.warn(
                    "damage", "damaged bytes are skipped, the first %d here: %s", following - error.offset, error
                )
                self.offset = following
        self.join_chunks()
        self._seen = seen
        self.is_complete = not self._damages and self.offset >= stat.st_size

    def _skip(self, error: DamagedFileError) -> None:
        self._warnings.warn("record", "records that are not events are skipped, the first one here: %s", error)


def _next_record(path: str, offset: int) -> int | None:
    """Offset of the first complete record behind a damaged one; ``None`` if there is none (yet)."""
    following = next((piece for piece in read_pieces(path, offset) if piece.payload is not None), None)
    return None if following is None else following.start
