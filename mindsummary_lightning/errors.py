"""The errors that this package raises on purpose.

They are a family, with the facts as attributes.

Argument mistakes are plain ``TypeError`` and ``ValueError``; this module holds what a caller may
want to catch by name.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import Any


class MindSummaryError(Exception):
    """Base of every error this package defines."""


class DamagedFileError(MindSummaryError, ValueError):
    """A summary or lineage file holds bytes that are no record.

    Attributes:
        path: the file, as the caller named it.
        offset: byte offset of the record that cannot be read; everything before it is whole.
        reason: what was expected there and what was found.
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"record at byte {offset} of {path}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason

    def __reduce__(self) -> tuple[type[DamagedFileError], tuple[str, int, str]]:
        return type(self), (self.path, self.offset, self.reason)


class GraphCaptureError(MindSummaryError, RuntimeError):
    """A graph cannot be made of a module and its example input.

    The text tells the reason and the remedy.
    """


class RecordTooLargeError(MindSummaryError, ValueError):
    """A value is larger than MindInsight reads.

    It is refused before anything is written.
    """


class RemotePathError(MindSummaryError, ValueError):
    """The address of a remote store (``s3://...``) was given for a local path.

    It may also be of a kind that cannot be reached.
    """


class ForeignFileError(MindSummaryError, FileExistsError):
    """A file at a copy's destination differs from the sent file, and is newer."""

    def __init__(self, copy: str, original: str) -> None:
        super().__init__(
            f"{copy} differs from {original} and is newer, so it is not replaced; "
            "to replace it, add --force"
        )


class ForkedWriterError(MindSummaryError, OSError):
    """The run's writer belongs to another process.

    This process was forked from it, so it may not write.
    """


class LineageParamTypeError(MindSummaryError, TypeError):
    """An argument of a lineage query has the wrong type."""


class LineageParamValueError(MindSummaryError, ValueError):
    """An argument of a lineage query has a value that is not known."""


class LineageParamSummaryPathError(MindSummaryError, ValueError):
    """The directory given to a lineage query is empty, relative or missing."""


class LineageSearchConditionParamError(MindSummaryError, ValueError):
    """A search condition names an unknown field or operator.

    It may also give it a value of the wrong kind.
    """


class LineageFileNotFoundError(MindSummaryError, FileNotFoundError):
    """The run directory holds no lineage file."""


class LineageQuerySummaryDataError(MindSummaryError, RuntimeError):
    """The lineage files were found, but their content cannot be queried."""


def closest(name: object, names: Iterable[str]) -> str:
    """Text such as ``; closest: 'metric/val/accuracy'``.

    It is empty if no name is like the given one.
    """
    import difflib  # here: a start needs no error

    asked, known = str(name), sorted(names)
    alike = [other for other in known if asked and asked.lower() in other.lower()]
    alike += difflib.get_close_matches(asked, known, n=3, cutoff=0.6)
    return f"; closest: {', '.join(map(repr, list(dict.fromkeys(alike))[:3]))}" if alike else ""


def missing_packages(what: str, *packages: str) -> ImportError:
    """The error for lacking packages.

    It names them as pip does.

    Never this project with an extra: where torch is absent on purpose, that would bring all of it.
    """
    named = packages[0] if len(packages) == 1 else f"{', '.join(packages[:-1])} and {packages[-1]}"
    return ImportError(f"{what} needs {named}: pip install {' '.join(packages)}")


def imported(package: str, what: str) -> Any:
    """Import a package that ``what`` needs.

    It raises :func:`missing_packages` if the package is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise missing_packages(what, package) from error


def named_error(name: str, error: BaseException) -> BaseException:
    """An error as it is raised, with the name of the value before its text.

    An error of a class that our checks do not raise stays as it is.
    """
    if type(error) in (TypeError, ValueError, RecordTooLargeError):
        return type(error)(f"{name}: {error}")
    return error


def error_text(error: BaseException) -> str:
    """The message of an error in a line.

    It is its type's name if it has no message or fails to give it.
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
    r"""Escape every character of a text that does not print.

    The escapes are JSON's, such as ``\u001b``.

    For whatever was recorded, or named, by someone else and is about to reach a terminal or a log:
    control characters could rewrite the screen, and bidirectional marks reorder what is read. In a
    JSON text the result means the same.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
