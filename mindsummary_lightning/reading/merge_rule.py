"""Samples of a run's tags over all its files, merged by MindInsight's rule for resumed runs.

A later file takes precedence: from its first step of a tag on, samples of that tag in older files are dropped; of two
samples of one tag, kind and step the later one counts.
"""

from __future__ import annotations

import itertools
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.fileformat.file_names import timestamp_of
from mindsummary_lightning.reading.followed_file import FollowedFile, ScalarPart

KINDS = ("scalar", "image", "tensor", "histogram", "loss_landscape")


def tags_by_kind(files: Iterable[FollowedFile]) -> dict[str, list[str]]:
    """Sorted tags of each of :data:`KINDS` in the files of a run."""
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for kind, tag in sorted(set().union(*(file.tags for file in files))):
        found[kind].append(tag)
    return found


def merged_scalars(files: Iterable[FollowedFile], tag: str) -> list[ScalarPart]:
    """One scalar of a run in parts, by step; ``files`` are in the reader's order, and at least one holds it."""
    parts = [(file.path, part) for file in files if ("scalar", tag) in file.tags for part in file.scalar_parts(tag)]
    steps_of = [part[0] for _, part in parts]
    ascends = all((one[1:] > one[:-1]).all() for one in steps_of)
    if ascends and all(before[-1] < after[0] for before, after in itertools.pairwise(steps_of)):
        return [part for _, part in parts]
    by_file = itertools.groupby(parts, key=lambda part: part[0])
    kept = selected_samples([(path, np.concatenate([part[0] for _, part in of_file])) for path, of_file in by_file])
    columns = zip(*(part for _, part in parts), strict=True)
    steps, wall_times, values = (np.concatenate(column)[kept] for column in columns)
    return [(steps, wall_times, values)]


def merged_samples(
    files: Iterable[FollowedFile], kind: str, tag: str
) -> tuple[list[str], NDArray[np.intp], NDArray[np.void]]:
    """Samples of one tag of another kind, by step: paths, of each sample the index of its path, and its row."""
    parts = [(file.path, file.samples(kind, tag)) for file in files if (kind, tag) in file.tags]
    kept = selected_samples([(path, rows["step"]) for path, rows in parts])
    owners = np.repeat(np.arange(len(parts)), [rows.size for _, rows in parts])
    return [path for path, _ in parts], owners[kept], np.concatenate([rows for _, rows in parts])[kept]


def selected_samples(files: Sequence[tuple[str, NDArray[np.int64]]]) -> NDArray[np.int64]:
    """Indices of the samples that count, by step, each step once, by the rule of MindInsight's reader.

    ``files`` are path and steps in file order of each file with samples of the tag, in the reader's order; the indices
    are into the joined samples of all files.
    """
    steps = np.concatenate([file_steps for _, file_steps in files])
    last = _last_of_each_step(steps)  # over all files: a later one takes a step from those before it
    bounds = _first_dropped_steps(files)
    file_of = np.repeat(np.arange(len(files)), [file_steps.size for _, file_steps in files])[last]
    is_bound = np.array([bound is not None for bound in bounds])[file_of]
    is_stale = is_bound & (steps[last] >= np.array([bound or 0 for bound in bounds], np.int64)[file_of])
    return last[~is_stale]


def _first_dropped_steps(files: Sequence[tuple[str, NDArray[np.int64]]]) -> list[int | None]:
    """Of each file the step from which on later files take its place, ``None`` if none does."""
    # The reader compares the names' digits as text, and drops larger steps of files with smaller digits only.
    digits = [str(timestamp_of(os.path.basename(path))) for path, _ in files]
    rank = {text: -index for index, text in enumerate(sorted(set(digits)))}
    bounds: list[int | None] = []
    # Of the files behind: negative ranks, ascending, and the smallest first step of those up to each.
    ranks: list[int] = []
    firsts: list[int] = []
    for text, (_, file_steps) in zip(reversed(digits), reversed(files), strict=True):
        at = bisect_left(ranks, rank[text])
        bounds.append(firsts[at - 1] if at else None)
        first = int(file_steps.min())
        if not at or first < firsts[at - 1]:
            end = at
            while end < len(firsts) and firsts[end] >= first:
                end += 1
            if end > at or at == len(ranks) or ranks[at] != rank[text]:
                ranks[at:end], firsts[at:end] = [rank[text]], [first]
    return bounds[::-1]


def _last_of_each_step(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices of the last sample of each step, by step."""
    if (steps[1:] > steps[:-1]).all():  # a difference of steps may not fit 64 bits
        return np.arange(steps.size)
    _, from_the_end = np.unique(steps[::-1], return_index=True)
    return np.asarray(steps.size - 1 - from_the_end, np.int64)
