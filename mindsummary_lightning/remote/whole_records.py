"""``WholeRecords``: the bytes of a summary file up to the end of its last complete record, from any offset on."""

from __future__ import annotations

import io
from collections.abc import Iterator

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileio.blocks import blocks_of
from mindsummary_lightning.remote.store import CHUNK, Store


class WholeRecords:
    """The complete records among the first ``size`` bytes of a file.

    Args:
        source: where it is.
        name: its path there.
        size: bytes of it that count.
        border: the end of a record; what lies before is not read unless it is asked for.

    Attributes:
        end: end of the last complete record that was read.
        damage: what ended the records before ``size``, if it is not merely an incomplete one.
    """

    def __init__(self, source: Store, name: str, size: int, border: int) -> None:
        self._source = source
        self._name = name
        self._size = size
        self._border = border
        self.end = border
        self.damage: DamagedFileError | None = None

    def after(self, start: int) -> Iterator[bytes]:
        """Yield the bytes from an offset on, which need not be where a record begins."""
        at = self.end = self._border if self._border <= start else 0
        self.damage, wanted = None, CHUNK
        while at < self._size:
            data = self._source.read(self._name, at, min(at + wanted, self._size))
            whole = 0
            try:
                for end, _ in blocks_of(io.BytesIO(data), self._name, 0):
                    whole = end
            except DamagedFileError as error:
                if not whole:
                    self.damage = DamagedFileError(self._source.path(self._name), at, error.reason)
                    return
            if not whole and at + len(data) == self._size:
                return
            wanted = CHUNK if whole else 2 * wanted  # a record that is larger
            at += whole
            self.end = at
            if at > start:
                yield data[max(0, whole - (at - start)) : whole]
