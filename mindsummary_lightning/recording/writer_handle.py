"""A reference to the shared writer of a directory: acquired by the first value, released with its owner."""

from __future__ import annotations

import weakref
from typing import Any

from mindsummary_lightning.recording.event_files import FileOptions
from mindsummary_lightning.recording.event_writer import EventWriter, shared_event_writer


class WriterHandle:
    """Holds at most one reference to the :class:`EventWriter` of a directory.

    Args:
        directory: the run directory; need not exist.
        options: how a new writer creates its files.
    """

    def __init__(self, directory: str, options: FileOptions) -> None:
        self.writer: EventWriter | None = None
        """The writer, while it is held."""
        self._directory = directory
        self.options = options
        """How a new writer creates its files."""
        self._finalizer: weakref.finalize[..., WriterHandle] | None = None

    def acquire(self) -> EventWriter:
        """The writer; :meth:`release` it when nothing is recorded for a while."""
        writer = self.writer
        if writer is None:
            writer = shared_event_writer(self._directory, self.options)
            # An owner that is dropped without close() keeps no file open.
            finalizer = weakref.finalize(self, writer.release_when_free)
            finalizer.atexit = False
            if self.writer is not None:  # a signal handler that recorded meanwhile has acquired it
                finalizer()
                return self.writer
            self._finalizer, self.writer = finalizer, writer
        return writer

    def release(self) -> None:
        """Release the writer; its file is closed when nobody else holds it.

        Raises:
            OSError: the file system reports only now that records written earlier are lost.
        """
        writer, self.writer = self.writer, None
        if writer is not None and self._finalizer is not None and self._finalizer.detach():
            writer.release()

    def __getstate__(self) -> dict[str, Any]:
        # A copy, in this process or another, opens nothing until it records.
        return {**self.__dict__, "writer": None, "_finalizer": None}
