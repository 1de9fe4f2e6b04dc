"""Reads and checks the pairs of names that the user gives."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping

from mindsummary_lightning.values.text import listed

_LISTED = 4  # names in a message


def read_names(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read pairs of names from a text file, a pair per line.

    ``#`` begins a comment.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not a pair, or a name occurs twice.
    """
    pairs: dict[str, str] = {}
    # editors of Windows begin it with a mark
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            if len(words) != 2 or words[0] in pairs:
                where = f"line {number} of {os.fspath(path)}"
                must = (
                    "must be a name in the baseline, not used before, and its name in the candidate"
                )
                raise ValueError(f"{where} {must}, got {line.strip()!r}")
            pairs[words[0]] = words[1]
    return pairs


def check_names(given: Mapping[str, str], a: Mapping[str, int], b: Mapping[str, int]) -> None:
    """Check that the given pairs name existing tensors of equal size.

    Args:
        given: names in the candidate by names in the baseline.
        a: elements of the tensors of the baseline, by name.
        b: elements of the tensors of the candidate, by name.

    Raises:
        ValueError: a name is unknown or given twice, or two tensors have other numbers of elements.
    """
    _check_known(given, a, "baseline")
    _check_known(given.values(), b, "candidate")
    counts = Counter(given.values())
    for name_a, name_b in given.items():
        if counts[name_b] > 1:
            raise ValueError(
                f"a tensor of the candidate must be in a single pair, got {name_b!r} in several. "
                "Give it a single partner in the baseline"
            )
        if a[name_a] != b[name_b]:
            raise ValueError(
                f"paired tensors must have equal numbers of elements, got {a[name_a]} in "
                f"{name_a!r} and {b[name_b]} in {name_b!r}. Correct the pair"
            )


def _check_known(names: Iterable[str], known: Mapping[str, int], run: str) -> None:
    unknown = sorted({*names} - known.keys())
    if unknown:
        raise ValueError(
            f"the {run} has no tensor {unknown[0]!r}; it has {listed([*known], _LISTED) or 'none'}"
        )
