"""Exception classes of this package, and helpers that build error messages.

A caller may catch these classes by name, and read the facts from their attributes. Wrong arguments
raise plain ``TypeError`` and ``ValueError`` instead.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import Any


class MindSummaryError(Exception):
    """Base class of every exception class that this package defines."""


class DamagedFileError(MindSummaryError, ValueError):
    """Raised if a summary or lineage file contains bytes that are not a valid record.

    Attributes:
        path: the file, as the caller named it.
        offset: byte offset of the invalid record; all records before it are complete.
        reason: what was expected at the offset and what was found.
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"record at byte {offset} of {path}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[type[DamagedFileError], tuple[str, int, str]]:
        return type(self), (self.path, self.offset, self.reason)


class GraphCaptureError(MindSummaryError, RuntimeError):
    """Raised if the computational graph of a module cannot be recorded.

    The message gives the reason and the remedy.
    """


class RecordTooLargeError(MindSummaryError, ValueError):
    """Raised if a value is too large for MindInsight to read.

    No part of the value is written.
    """


class RemotePathError(MindSummaryError, ValueError):
    """Raised if a remote address such as ``s3://...`` cannot be used.

    Either the argument must be a local path, or the address is of a kind that cannot be reached.
    """


class ForeignFileError(MindSummaryError, FileExistsError):
    """Raised instead of replacing a newer, different file at a copy's destination."""

    def __init__(self, copy: str, original: str) -> None:
        super().__init__(
            f"{copy} differs from {original} and is newer, so it is not replaced; "
            "to replace it, add --force"
        )


class ForkedWriterError(MindSummaryError, OSError):
    """Raised if a forked process writes to run files that its parent process opened.

    Only the process that opened a run's files may write to them.
    """


class LineageParamTypeError(MindSummaryError, TypeError):
    """Raised if an argument of a lineage query has the wrong type."""


class LineageParamValueError(MindSummaryError, ValueError):
    """Raised if an argument of a lineage query has an unsupported value."""


class LineageParamSummaryPathError(MindSummaryError, ValueError):
    """Raised if the path given to a lineage query does not lead to a directory."""


class LineageSearchConditionParamError(MindSummaryError, ValueError):
    """Raised if a condition of a lineage query has an unknown field or operator.

    Also raised if the value of the condition has the wrong type.
    """


class LineageFileNotFoundError(MindSummaryError, FileNotFoundError):
    """Raised if a run directory contains no lineage file."""


class LineageQuerySummaryDataError(MindSummaryError, RuntimeError):
    """Raised if lineage files exist, but their content cannot be queried."""


def closest(name: object, names: Iterable[str]) -> str:
    """Return a hint for a misspelled name, such as ``; closest: 'metric/loss'``.

    The hint lists at most three of the known ``names``. It is empty if ``name`` is like no known
    name.
    """
    import difflib  # here: a start needs no error

    asked, known = str(name), sorted(names)
    alike = [other for other in known if asked and asked.lower() in other.lower()]
    alike += difflib.get_close_matches(asked, known, n=3, cutoff=0.6)
    return f"; closest: {', '.join(map(repr, list(dict.fromkeys(alike))[:3]))}" if alike else ""


def missing_packages(what: str, *packages: str) -> ImportError:
    """Return the ImportError for packages that are not installed.

    The message says which feature (``what``) needs the packages, and names them as pip does.

    It never proposes this project with an extra: in an environment without torch, that would
    install torch too.
    """
    named = packages[0] if len(packages) == 1 else f"{', '.join(packages[:-1])} and {packages[-1]}"
    return ImportError(f"{what} needs {named}: pip install {' '.join(packages)}")


def imported(package: str, what: str) -> Any:
    """Import an optional package, and raise a helpful error if it is missing.

    ``what`` names the feature that needs the package.

    Raises:
        ImportError: the package is not installed; the error is that of :func:`missing_packages`.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise missing_packages(what, package) from error


def named_error(name: str, error: BaseException) -> BaseException:
    """Copy an error, and put the name of a value in front of its message.

    An error of another class than TypeError, ValueError and RecordTooLargeError is returned
    unchanged.
    """
    if type(error) in (TypeError, ValueError, RecordTooLargeError):
        return type(error)(f"{name}: {error}")
    return error


def error_text(error: BaseException) -> str:
    """Return the message of an exception as a single line.

    For an OSError, the line has the path and the reason, without the number of the error. If the
    exception has no message or cannot be converted to a str, the line is the name of its class.
    """
    try:
        text = str(error)
        # not "[Errno 2] No such file or directory: 'a'"
        if isinstance(error, OSError) and error.strerror:
            where = ""
            if error.filename is not None:
                where = f"{printable(os.fsdecode(error.filename)) or repr('')}: "
            text = f"{where}{error.strerror[:1].lower()}{error.strerror[1:]}"
        return printable(" ".join(text.split())) or type(error).__name__
    except KeyboardInterrupt:
        raise
    except BaseException:  # a user's class of errors; SystemExit is no better than the others here
        return type(error).__name__


def printable(text: str) -> str:
    r"""Escape every character of a text that is not printable.

    The escapes are those of JSON, such as ``\u001b``.

    Use it before a text that another person recorded or named reaches a terminal or a log: control
    characters could rewrite the screen, and bidirectional marks reorder the text. In a JSON text
    the result means the same.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
