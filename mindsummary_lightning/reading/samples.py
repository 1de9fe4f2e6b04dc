"""Samples of a run's tags over all its files, merged by MindInsight's rule for resumed runs.

A later file takes precedence: from its first step of a tag on, samples of that tag in older files are dropped; of two
samples of one tag, kind and step the later one counts. Values other than scalars are only located here, not decoded.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.fileformat.file_names import timestamp_of
from mindsummary_lightning.reading.outlines import Location, outlined_batches
from mindsummary_lightning.reading.results import ScalarSeries

__all__ = [
    "KINDS",
    "LocatedSamples",
    "gather_locations",
    "gather_scalars",
    "gather_tags",
    "in_file_order",
    "kept_samples",
    "merged_files",
]

KINDS = ("scalar", "image", "tensor", "histogram", "loss_landscape")


@dataclass(frozen=True, slots=True)
class LocatedSamples:
    """Samples of one tag and kind, located but not decoded, by step.

    Attributes:
        steps: ascending, no step twice.
        wall_times: seconds since the epoch.
        locations: the bytes of the values.
    """

    steps: list[int]
    wall_times: list[float]
    locations: list[Location]


def gather_tags(paths: Sequence[str]) -> dict[str, list[str]]:
    """Sorted tags of each of :data:`KINDS` in the files of a run.

    Raises:
        DamagedFileError: a file is damaged.
    """
    found: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for path in paths:
        for batch in outlined_batches(path):
            found["scalar"].update(*(columns.tags for columns in batch.scalars))
            for record in batch.others:
                for value in record.outline.values:
                    found[value.kind].add(value.tag)
    return {kind: sorted(tags) for kind, tags in found.items()}


def gather_scalars(paths: Sequence[str], tag: str | None) -> dict[str, ScalarSeries]:
    """Scalars of the files of a run, merged.

    Args:
        paths: the files, in the reader's order.
        tag: the only tag wanted, or ``None`` for all.

    Returns:
        The series by tag, tags sorted.

    Raises:
        DamagedFileError: a file is damaged.
    """
    files: dict[str, list[tuple[str, ScalarSeries]]] = {}
    for path in paths:
        for found, series in _file_scalars(path, tag).items():
            files.setdefault(found, []).append((path, series))
    return {found: merged_files(files[found]) for found in sorted(files)}


def merged_files(files: Sequence[tuple[str, ScalarSeries]]) -> ScalarSeries:
    """One scalar of a run.

    Args:
        files: for each file that holds any, in the reader's order, its path and its samples in file order.
    """
    kept = kept_samples([(path, series.steps) for path, series in files])
    return ScalarSeries(
        *(np.concatenate([getattr(series, name) for _, series in files])[kept] for name in ScalarSeries.__slots__)
    )


def _file_scalars(path: str, tag: str | None) -> dict[str, ScalarSeries]:
    """One file's samples in file order."""
    chunks: dict[str, list[tuple[NDArray[np.int64], ScalarSeries]]] = {}
    for batch in outlined_batches(path):
        for columns in batch.scalars:
            for index, found in enumerate(columns.tags):
                if tag is None or found == tag:
                    values = columns.values[:, index].copy()  # a view would keep every other tag's values alive
                    series = ScalarSeries(columns.steps, columns.wall_times, values)
                    chunks.setdefault(found, []).append((columns.rows, series))
        for record in batch.others:
            for value in record.outline.values:
                if value.kind == "scalar" and (tag is None or value.tag == tag):
                    one = ScalarSeries(
                        np.array([record.outline.step]),
                        np.array([record.outline.wall_time]),
                        np.array([value.scalar], np.float32),
                    )
                    chunks.setdefault(value.tag, []).append((np.array([record.row]), one))
    return {found: in_file_order(parts) for found, parts in chunks.items()}


def in_file_order(chunks: Sequence[tuple[NDArray[np.integer], ScalarSeries]]) -> ScalarSeries:
    """Samples of one scalar and file, joined.

    Args:
        chunks: samples, each with the number of its record in the file.
    """
    if len(chunks) == 1:
        return chunks[0][1]
    rows = np.concatenate([rows for rows, _ in chunks])
    order = slice(None) if (np.diff(rows) >= 0).all() else np.argsort(rows, kind="stable")
    return ScalarSeries(
        *(np.concatenate([getattr(series, name) for _, series in chunks])[order] for name in ScalarSeries.__slots__)
    )


def gather_locations(paths: Sequence[str], kind: str, tag: str | None) -> dict[str, LocatedSamples]:
    """Locations of the values of a kind in the files of a run; arguments and errors as :func:`gather_scalars`."""
    files: dict[str, dict[str, list[tuple[int, float, Location]]]] = {}
    for path in paths:
        for batch in outlined_batches(path):
            for record in batch.others:
                for value in record.outline.values:
                    if value.kind == kind and (tag is None or value.tag == tag):
                        start = record.location.start
                        location = Location(path, start + value.start, start + value.end, record.location.record)
                        sample = (record.outline.step, record.outline.wall_time, location)
                        files.setdefault(value.tag, {}).setdefault(path, []).append(sample)
    located = {}
    for found in sorted(files):
        by_file = files[found]
        joined = [sample for samples in by_file.values() for sample in samples]
        steps = [(path, np.array([step for step, _, _ in samples], np.int64)) for path, samples in by_file.items()]
        kept = [joined[index] for index in kept_samples(steps).tolist()]
        located[found] = LocatedSamples(*(list(column) for column in zip(*kept, strict=True)))
    return located


def kept_samples(files: Sequence[tuple[str, NDArray[np.int64]]]) -> NDArray[np.int64]:
    """Select the samples of one tag and kind that count, by the rule of MindInsight's reader.

    Args:
        files: for each file that holds any, in the reader's order, its path and its samples' steps in file order.

    Returns:
        Indices into the joined samples of all files, ordered by step, each step once.
    """
    kept = np.empty(0, np.int64)
    steps = np.concatenate([file_steps for _, file_steps in files]) if files else np.empty(0, np.int64)
    file_of = np.concatenate([np.full(len(found), index) for index, (_, found) in enumerate(files)]) if files else kept
    digits = [str(timestamp_of(os.path.basename(path))) for path, _ in files]
    begin = 0
    for index, (_, found) in enumerate(files):
        if not found.size:
            continue
        new = begin + _last_of_each_step(found)
        begin += found.size
        if kept.size:
            # The reader compares the names' digits as text, and drops larger steps of files with smaller digits only.
            older = np.array([other < digits[index] for other in digits])[file_of[kept]]
            stale = (older & (steps[kept] >= found.min())) | np.isin(steps[kept], found)
            kept = kept[~stale]
        kept = np.concatenate([kept, new])
    return kept[np.argsort(steps[kept], kind="stable")]


def _last_of_each_step(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    if (np.diff(steps) > 0).all():
        return np.arange(steps.size)
    _, from_the_end = np.unique(steps[::-1], return_index=True)
    return np.asarray(steps.size - 1 - from_the_end, np.int64)
