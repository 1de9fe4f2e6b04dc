"""A run as tables and arrays: CSV, Parquet and NumPy files."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from urllib.parse import quote

import numpy as np

from mindsummary_lightning.reading.summary_reader import SummaryReader

__all__ = ["export_csv", "export_npy", "export_parquet"]

_HISTOGRAM_COLUMNS = ("tag", "step", "wall_time", "left", "width", "count")
_MAX_NAME_LENGTH = 180  # characters of a quoted tag in a file name; file systems take 255 bytes


def export_csv(run_dir: str, out_dir: str, progress: Callable[[int], object] = lambda count: None) -> list[str]:
    """Write ``scalars.csv`` (tag, step, wall_time, value) and ``histograms.csv`` (one row a bucket).

    Numbers are written so that they read back exactly. A file without rows is not written.

    Args:
        run_dir: the run.
        out_dir: where the files go; made if needed.
        progress: called with numbers of samples written.

    Returns:
        Paths of the files.

    Raises:
        DamagedFileError: a file of the run is damaged.
        OSError: a file cannot be written.
    """
    reader = SummaryReader(run_dir)
    os.makedirs(out_dir, exist_ok=True)
    written = []
    for name, header, rows in (
        ("scalars.csv", ("tag", "step", "wall_time", "value"), _scalar_rows(reader)),
        ("histograms.csv", _HISTOGRAM_COLUMNS, _histogram_rows(reader)),
    ):
        first = next(rows, None)
        if first is None:
            continue
        written.append(os.path.join(out_dir, name))
        with open(written[-1], "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerow(first)
            progress(1)
            for row in rows:
                writer.writerow(row)
                progress(1)
    return written


def export_parquet(run_dir: str, out_dir: str, progress: Callable[[int], object] = lambda count: None) -> list[str]:
    """Write ``scalars.parquet`` and ``histograms.parquet``, with the columns of the CSV files.

    Arguments, result and errors as :func:`export_csv`.

    Raises:
        ImportError: pandas or pyarrow is missing.
    """
    try:
        import pandas
        import pyarrow  # noqa: F401  # what pandas writes Parquet with; asked for now so that nothing is half done
    except ImportError as error:
        raise ImportError("Parquet needs pandas and pyarrow: pip install 'mindsummary-lightning[parquet]'") from error
    reader = SummaryReader(run_dir)
    os.makedirs(out_dir, exist_ok=True)
    written = []
    for name, frame in (
        ("scalars.parquet", reader.to_pandas()),
        ("histograms.parquet", pandas.DataFrame(list(_histogram_rows(reader)), columns=list(_HISTOGRAM_COLUMNS))),
    ):
        if len(frame):
            written.append(os.path.join(out_dir, name))
            frame.to_parquet(written[-1], index=False)
            progress(len(frame))
    return written


def export_npy(run_dir: str, out_dir: str, progress: Callable[[int], object] = lambda count: None) -> list[str]:
    """Write ``scalar/<tag>.npy`` (fields step, wall_time, value) and ``tensor/<tag>_<step>.npy``; tags percent-quoted.

    Arguments, result and errors as :func:`export_csv`.
    """
    reader = SummaryReader(run_dir)
    written = []
    for tag, series in reader.all_scalars().items():
        table = np.empty(len(series), [("step", np.int64), ("wall_time", np.float64), ("value", np.float32)])
        table["step"], table["wall_time"], table["value"] = series.steps, series.wall_times, series.values
        written.append(_save(out_dir, "scalar", f"{_quoted(tag)}.npy", table))
        progress(len(series))
    for tag in reader.tags()["tensor"]:
        for step, _, tensor in reader.tensors(tag):
            written.append(_save(out_dir, "tensor", f"{_quoted(tag)}_{step}.npy", tensor.data))
            progress(1)
    return written


def _scalar_rows(reader: SummaryReader) -> Iterator[tuple[str, int, str, str]]:
    for tag, series in reader.all_scalars().items():
        for step, wall_time, value in zip(
            series.steps.tolist(), series.wall_times.tolist(), series.values, strict=True
        ):
            yield tag, step, repr(wall_time), str(value)


def _histogram_rows(reader: SummaryReader) -> Iterator[tuple[str, int, float, float, float, int]]:
    for tag in reader.tags()["histogram"]:
        for step, wall_time, histogram in reader.histograms(tag):
            buckets = (histogram.lefts.tolist(), histogram.widths.tolist(), histogram.counts.tolist())
            for left, width, count in zip(*buckets, strict=True):
                yield tag, step, wall_time, left, width, count


def _save(out_dir: str, folder: str, name: str, array: np.ndarray) -> str:
    path = os.path.join(out_dir, folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    np.save(path, array, allow_pickle=False)
    return path


def _quoted(tag: str) -> str:
    return quote(tag, safe="")[:_MAX_NAME_LENGTH] or "_"
