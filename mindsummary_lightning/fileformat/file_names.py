"""Compose, recognise and sort the names of summary and lineage files.

The rules are those of MindInsight 2.3.1.

A name is ``<prefix>.out.events.summary.<unix seconds>.<rank>.<host><suffix>``. MindInsight looks
for ``summary.`` and digits anywhere in the name and takes the first match as the file's time, in
seconds. If the digits of a single name are not a valid time (milliseconds, for example),
MindInsight lists no run at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

DEFAULT_PREFIX = "events"
DEFAULT_SUFFIX = "_MS"
LINEAGE_SUFFIX = "_lineage"
EXPLAIN_SUFFIX = "_explain"
_OTHER_KINDS = (LINEAGE_SUFFIX, EXPLAIN_SUFFIX)  # of event files than those of summaries
# 9999-12-31: beyond it the reader's datetime fails, and with it the listing
MAX_TIMESTAMP = 253402300799
_MAX_NAME_LENGTH = 255  # bytes, on every common file system

_TIMESTAMP = re.compile(r"summary\.(\d+)")
_NO_GRAPH = re.compile(r"^memory_usage_\d+\.pb$")
_UNSAFE_IN_NAME = re.compile(r"[/\\\x00-\x1f\x7f\ud800-\udfff]")
_UNSAFE_IN_HOST = re.compile(r"[^A-Za-z0-9_.-]+")


def check_prefix_and_suffix(prefix: str, suffix: str) -> None:
    """Check that MindInsight recognises files with a prefix and suffix.

    Raises:
        TypeError: the prefix or the suffix is not a str.
        ValueError: MindInsight would misread the names of the files.
    """
    for name, text in (("file_prefix", prefix), ("file_suffix", suffix)):
        if not isinstance(text, str):
            raise TypeError(f"{name} must be a str, not {text!r}")
        if _UNSAFE_IN_NAME.search(text) or _TIMESTAMP.search(text):
            raise ValueError(
                f"{name} must hold no path separator, control character, lone surrogate or "
                f"'summary.<digits>', got {text!r}"
            )
        if len(text.encode()) > _MAX_NAME_LENGTH // 4:
            raise ValueError(
                f"{name} must be at most {_MAX_NAME_LENGTH // 4} bytes long, not {text!r}"
            )
    if suffix.endswith((*_OTHER_KINDS, ".pb")):
        raise ValueError(
            f"file_suffix must not end in {LINEAGE_SUFFIX!r}, {EXPLAIN_SUFFIX!r} or '.pb', got "
            f"{suffix!r}. MindInsight takes such names for other kinds of file"
        )


def file_name(prefix: str, seconds: int, rank: int, host: str, suffix: str) -> str:
    """Compose the name of a summary or lineage file.

    ``seconds`` is a Unix time. Characters of the host that a file name should not have become
    ``_``.

    Raises:
        ValueError: ``seconds`` is not a time that MindInsight can show.
    """
    if not 0 <= seconds <= MAX_TIMESTAMP:
        raise ValueError(
            f"seconds must be in 0..{MAX_TIMESTAMP}, got {seconds}. Because of a file with such a "
            "time, MindInsight would list no run"
        )
    safe_host = _UNSAFE_IN_HOST.sub("_", host)[:64] or "localhost"
    if f"{safe_host}{suffix}".endswith(_OTHER_KINDS) and not suffix.endswith(_OTHER_KINDS):
        safe_host += "-"  # the host's name would make it a file of another kind
    return f"{prefix}.out.events.summary.{seconds}.{rank}.{safe_host}{suffix}"


def timestamp_of(name: str) -> int | None:
    """Return the Unix time in a file's name, in seconds.

    It is ``None`` if MindInsight would not take the file for an event file.
    """
    match = _TIMESTAMP.search(name)
    return int(match.group(1)) if match else None


def is_summary_name(name: str) -> bool:
    """Tell whether MindInsight takes a file for a summary file, by its name."""
    return _TIMESTAMP.search(name) is not None and not name.endswith(_OTHER_KINDS)


def is_lineage_name(name: str) -> bool:
    """Tell whether MindInsight takes a file for a lineage file, by its name."""
    return _TIMESTAMP.search(name) is not None and name.endswith(LINEAGE_SUFFIX)


def is_graph_name(name: str) -> bool:
    """Tell whether MindInsight takes a file for a graph (``.pb``), by its name.

    MindSpore's compiler saves such graphs.
    """
    return (
        name.endswith(".pb") and _TIMESTAMP.search(name) is None and _NO_GRAPH.match(name) is None
    )


def read_order(names: Iterable[str]) -> list[str]:
    """Sort file names as MindInsight does: by time, for the same time in reverse.

    The last name is that of the file which MindInsight follows.
    """
    return sorted(sorted(names, reverse=True), key=lambda name: timestamp_of(name) or 0)
