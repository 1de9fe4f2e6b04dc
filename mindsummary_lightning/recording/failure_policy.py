"""Handle values that cannot be recorded.

Training continues unless ``raise_exception=True``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from mindsummary_lightning.errors import RecordTooLargeError, error_text, named_error
from mindsummary_lightning.fileio.append import MissingRecords
from mindsummary_lightning.fileio.outages import is_out_of_reach
from mindsummary_lightning.recording.retries import Retries, UnsyncedError
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

WRITE_ERRORS = (OSError, RuntimeError, MemoryError, RecordTooLargeError)
"""The errors that a failed write of a value raises."""


class FailurePolicy:
    """The rules for a value that cannot be converted or written.

    With ``raise_exception`` every error is raised again, otherwise it is logged. ``directory``
    names the run in messages. ``timer`` gives monotonic seconds, which measure the pauses between
    attempts.
    """

    def __init__(
        self,
        directory: str,
        raise_exception: bool,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lost: int = 0
        """Number of failed writes, and of records that disappeared from their files later."""
        self._taken_back = self._removed = 0  # of them, by the file system, and with their files
        self._lost_when_logged = 0
        self._timer = timer
        self._retries = Retries()
        self.warnings: WarnOnce = WarnOnce(_LOG)
        self._directory = directory
        self.raise_exception = raise_exception

    def attempt(self, what: str, action: Callable[..., bool | None], *arguments: object) -> bool:
        """Call a function that writes, and tell whether it wrote everything.

        The result is also False if the function queues its work and returns False. An error is
        handled by :meth:`write_failed` or :meth:`unconfirmed`.
        """
        try:
            return action(*arguments) is not False
        except UnsyncedError as error:
            self.unconfirmed(error)
            return True
        except WRITE_ERRORS as error:
            self.write_failed(what, error)
            return False

    def call_in_reach(self, action: Callable[..., bool | None], *arguments: object) -> bool | None:
        """Call a function that writes a file, with a pause after repeated failures.

        During a pause the last error is raised again, without a call. A pause follows a time-out of
        the file system, or many failures in a row (``retries``). The writer of the summary file has
        its own pauses.
        """
        began = self._timer()
        self._retries.check(began)
        try:
            answer = action(*arguments)
        except OSError as error:
            self._retries.failed(error, began, self._timer())
            raise
        self._retries.succeeded()
        return answer

    def write_failed(self, what: str, error: Exception) -> None:
        """Count a failed write, and log the first failure of each kind.

        With ``raise_exception`` the error is raised instead.
        """
        if self.raise_exception:
            raise error
        self.lost += 1
        key: tuple[object, ...] = ("write", type(error), getattr(error, "errno", None))
        if isinstance(error, OSError) and is_out_of_reach(error):
            # a place that goes away gives several errors, one after the other
            key = ("write", "out of reach")
        self.warnings.warn(
            key,
            "%s could not be recorded in %s: %s. Training continues. Later failures of this kind "
            "are only counted, and the total is logged at the end",
            *(what, self._directory, error_text(error)),
            level=logging.ERROR,
        )

    def unconfirmed(self, error: OSError) -> None:
        """Log that the last records may be missing on the disk.

        With ``raise_exception`` the error is raised instead.

        :meth:`records_missing` counts the missing records as soon as the file shows them.
        """
        if self.raise_exception:
            raise error
        if not self.lost:  # otherwise the user has been told, and the total follows
            self.warnings.warn(
                "unconfirmed",
                "%s may lack its last records, because the file system could not keep them: %s. "
                "Training continues",
                *(self._directory, error_text(error)),
                level=logging.ERROR,
            )

    def records_missing(self, losses: Iterable[MissingRecords]) -> None:
        """Add records that disappeared from their files to the number of lost records.

        The caller has logged them.
        """
        for loss in losses:
            self.lost += loss.count
            if loss.is_removed:
                self._removed += loss.count
            else:
                self._taken_back += loss.count

    def converted(
        self,
        kind: str,
        tag: str,
        convert: Callable[..., _T],
        *arguments: object,
        per_tag: bool = False,
    ) -> _T | None:
        """Convert a value for recording; return ``None`` if the conversion fails.

        ``arguments`` are those of ``convert``, the value first; the caller has checked the others.
        The first failure for each ``kind`` of value (such as ``"image"``) is logged, or with
        ``per_tag`` the first failure for each tag.
        """
        try:
            return convert(*arguments)
        except KeyboardInterrupt:
            raise
        except (
            BaseException
        ) as error:  # whatever a user's object raises when it is read, SystemExit included
            self.skip(kind, tag, error, per_tag)
            return None

    def step(self, name: str, tag: str, value: Any) -> int | None:
        """Return a step number as an int; warn if it has a fraction, which is dropped.

        The result is ``None`` if the step is not a number; then the value is skipped.
        """
        if type(value) is int:
            return value
        read = self.converted(f"{name} of", tag, _whole_part, value)
        if read is None:
            return None
        number, fraction = read
        if fraction:
            text = "%s of %r must be a whole number, got %s. Its whole part %d is recorded"
            self.warnings.warn(("fraction", name), text, name, tag, fraction, number)
        return number

    def skip(self, kind: str, tag: str, error: BaseException, per_tag: bool = False) -> None:
        """Log that a value cannot be recorded, once for each kind of value.

        With ``raise_exception`` the error is raised instead.
        """
        if isinstance(error, MemoryError):  # not the value's fault: it counts as lost
            self.write_failed(f"{kind} {tag!r}", error)
            return
        if self.raise_exception:
            raise named_error(f"{kind} {tag!r}", error)
        self.warnings.warn(
            ("value", kind, tag if per_tag else ""),
            "%s %r is skipped: %s. Later values of this kind that cannot be recorded are skipped "
            "without a message",
            *(kind, tag, error_text(error)),
        )

    def skip_closed(self, what: str, when: str = "") -> None:
        """Warn that a value is skipped because ``close()`` was called before.

        The warning comes once for each ``what``, which names the tag or the kind of value.
        """
        text = (
            "the record of %s is closed: %s%s is not recorded. Record before close(), or make a "
            "new record"
        )
        self.warnings.warn(("closed", what), text, self._directory, what, when)

    def log_total(self) -> None:
        """Log the total number of lost records, if it has grown since the last call."""
        if self.lost > self._lost_when_logged:
            self._lost_when_logged = self.lost
            failed = self.lost - self._taken_back - self._removed
            if failed == self.lost:
                _LOG.error(
                    "%d records of %s could not be written in total", self.lost, self._directory
                )
                return
            parts = [f"{failed} could not be written"] if failed else []
            if self._taken_back:
                parts.append(f"{self._taken_back} were accepted and later lost by the file system")
            if self._removed:
                parts.append(f"{self._removed} were in files that were removed or replaced")
            _LOG.error(
                "%d records of %s are lost in total: %s",
                self.lost,
                self._directory,
                ", ".join(parts),
            )


def _whole_part(value: Any) -> tuple[int, str]:
    """Return a number's whole part, and the number as text if it has a fraction."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise TypeError(f"a step must be a whole number, got {value!r}") from None
    return number, "" if number == value else repr(value)
