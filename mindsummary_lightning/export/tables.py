"""A run as tables and arrays: CSV, Parquet and NumPy files.

Each file appears under its name when it is complete, with the permissions of the run's files.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from mindsummary_lightning.conversion.arguments import refuse_remote
from mindsummary_lightning.fileio.replace import replace_file, replacement
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.recording.npy_export import quoted_name

_HISTOGRAM_COLUMNS = ("tag", "step", "wall_time", "left", "width", "count")
_NAMES = "names.json"


def export_csv(run_dir: str, out_dir: str, progress: Callable[[int], object] = lambda count: None) -> list[str]:
    """Write ``scalars.csv`` (tag, step, wall_time, value) and ``histograms.csv`` (one row per bucket).

    Numbers are written so that they read back exactly. A tag that a spreadsheet would take for a formula, because it
    begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return, gets an apostrophe before it, and so does one
    that begins with an apostrophe: without its first apostrophe such a cell is the tag. A file without rows is not
    written.

    Args:
        run_dir: the run.
        out_dir: where the files go; created if needed.
        progress: called with numbers of samples written.

    Returns:
        Paths of the files.

    Raises:
        DamagedFileError: a file of the run is damaged.
        OSError: a file cannot be written.
        RemotePathError: ``out_dir`` is not local.
    """
    refuse_remote("out_dir", out_dir)
    reader = SummaryReader(run_dir)
    mode = mode_of_runs([run_dir])
    os.makedirs(out_dir, exist_ok=True)
    written = []
    for name, header, rows in (
        ("scalars.csv", ("tag", "step", "wall_time", "value"), _scalars(reader)),
        ("histograms.csv", _HISTOGRAM_COLUMNS, _histograms(reader)),
    ):
        first = next(rows, None)
        if first is None:
            continue
        written.append(os.path.join(out_dir, name))
        with replacement(written[-1], mode) as binary:
            file = io.TextIOWrapper(binary, encoding="utf-8", errors="backslashreplace", newline="")
            writer = csv.writer(file)
            writer.writerow(header)
            for tag, *numbers in itertools.chain([first], rows):
                writer.writerow([_text_cell(tag), *numbers])
                progress(1)
            file.detach()
    return written


def export_parquet(run_dir: str, out_dir: str, progress: Callable[[int], object] = lambda count: None) -> list[str]:
    """Write ``scalars.parquet`` and ``histograms.parquet``, with the columns of the CSV files.

    Arguments, result and errors as :func:`export_csv`; tags stay as they are.

    Raises:
        ImportError: pandas or pyarrow is missing.
    """
    pandas = import_pandas()
    refuse_remote("out_dir", out_dir)
    reader = SummaryReader(run_dir)
    mode = mode_of_runs([run_dir])
    os.makedirs(out_dir, exist_ok=True)
    written = []
    for name, frame in (
        ("scalars.parquet", reader.to_pandas()),
        ("histograms.parquet", pandas.DataFrame(list(_histograms(reader)), columns=list(_HISTOGRAM_COLUMNS))),
    ):
        if len(frame):
            written.append(os.path.join(out_dir, name))
            replace_file(written[-1], frame.to_parquet(index=False), mode)
            progress(len(frame))
    return written


def export_npy(run_dir: str, out_dir: str, progress: Callable[[int], object] = lambda count: None) -> list[str]:
    """Write ``scalar/<tag>.npy`` (fields step, wall_time, value) and ``tensor/<tag>_<step>.npy``; tags percent-quoted.

    A tag of more than 180 characters is shortened, and it and tags that differ only in case get a short hash, so that
    each has a file of its own on every file system. ``names.json`` maps the files to their tags.

    Arguments, result and errors as :func:`export_csv`.
    """
    refuse_remote("out_dir", out_dir)
    reader = SummaryReader(run_dir)
    mode = mode_of_runs([run_dir])
    tensor_tags = reader.tags()["tensor"]
    series_by_tag = reader.all_scalars()
    written: dict[str, str] = {}

    def save(folder: str, name: str, tag: str, array: np.ndarray) -> None:
        path = os.path.join(out_dir, folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with replacement(path, mode) as file:
            np.save(file, array, allow_pickle=False)
        written[f"{folder}/{name}"] = tag

    names = _distinct_names(series_by_tag)
    for tag, series in series_by_tag.items():
        table = np.empty(len(series), [("step", np.int64), ("wall_time", np.float64), ("value", np.float32)])
        table["step"], table["wall_time"], table["value"] = series.steps, series.wall_times, series.values
        save("scalar", f"{names[tag]}.npy", tag, table)
        progress(len(series))
    names = _distinct_names(tensor_tags)
    for tag in tensor_tags:
        for step, _, tensor in reader.tensors(tag):
            save("tensor", f"{names[tag]}_{step}.npy", tag, tensor.data)
            progress(1)
    paths = [os.path.join(out_dir, *name.split("/")) for name in written]
    if written:
        paths.append(os.path.join(out_dir, _NAMES))
        replace_file(paths[-1], json.dumps(written, indent=1).encode(), mode)
    return paths


def mode_of_runs(run_dirs: Iterable[str]) -> int:
    """The permission bits, without execution, that all event files of some runs have; 0o600 if there are none."""
    modes = [
        os.stat(path).st_mode for run_dir in run_dirs for path in summary_files(run_dir) + lineage_file_paths(run_dir)
    ]
    common = 0o666 if modes else 0o600
    for mode in modes:
        common &= mode
    return common | 0o600  # MindSpore makes its finished files read-only; an export belongs to whoever made it


def import_pandas() -> Any:
    """Pandas, with what it writes Parquet with.

    Raises:
        ImportError: pandas or pyarrow is missing.
    """
    try:
        import pandas
        import pyarrow  # noqa: F401  # imported first so that nothing is half done
    except ImportError as error:
        raise ImportError("Parquet needs pandas and pyarrow: pip install 'mindsummary-lightning[parquet]'") from error
    return pandas


def _distinct_names(tags: Iterable[str]) -> dict[str, str]:
    names = {tag: quoted_name(tag) for tag in tags}
    alike = Counter(name.casefold() for name in names.values())
    return {tag: quoted_name(tag, with_hash=alike[name.casefold()] > 1) for tag, name in names.items()}


def _scalars(reader: SummaryReader) -> Iterator[tuple[Any, ...]]:
    for tag, series in reader.all_scalars().items():
        columns = (series.steps.tolist(), series.wall_times.tolist(), series.values)
        for step, wall_time, value in zip(*columns, strict=True):
            yield tag, step, repr(wall_time), str(value)


def _histograms(reader: SummaryReader) -> Iterator[tuple[Any, ...]]:
    for tag in reader.tags()["histogram"]:
        for step, wall_time, histogram in reader.histograms(tag):
            buckets = (histogram.lefts.tolist(), histogram.widths.tolist(), histogram.counts.tolist())
            for left, width, count in zip(*buckets, strict=True):
                yield tag, step, wall_time, left, width, count


def _text_cell(tag: str) -> str:
    return f"'{tag}" if tag.startswith(("=", "+", "-", "@", "\t", "\r", "'")) else tag
