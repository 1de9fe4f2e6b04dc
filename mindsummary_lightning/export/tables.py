"""A run as tables and arrays: CSV and NumPy files.

Each file appears under its name when it is complete, with the permissions of the run's files.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mindsummary_lightning.conversion.arguments import refuse_remote
from mindsummary_lightning.export.output_directory import ExportedFiles, OutputDirectory, mode_of_runs
from mindsummary_lightning.export.parquet_dataset import SAMPLE_COLUMNS, samples_of
from mindsummary_lightning.export.parquet_dataset import export_parquet as export_parquet
from mindsummary_lightning.fileformat.row_names import ROW_NAMES_FILE, encode_row_names
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.recording.npy_export import quoted_name
from mindsummary_lightning.values.statistics_columns import COLUMNS

_HISTOGRAM_COLUMNS = ("tag", "step", "wall_time", "left", "width", "count", *SAMPLE_COLUMNS)


def export_csv(
    run_dir: str, out_dir: str, progress: Callable[[int], object] = lambda count: None, *, force: bool = False
) -> ExportedFiles:
    """Write ``scalars.csv`` (tag, step, wall_time, value), ``histograms.csv`` with a row per bucket, and parameters.

    The columns of histograms are tag, step, wall_time, and left, width and count of the bucket; then, the same in each
    row of a sample, the number of its elements, how many of them are NaN, +inf and -inf, and min, max and sum of the
    finite ones. A sample without buckets, because nothing in it was finite, has one row without left and width.
    ``parameters.csv`` has a row per parameter and step: parameter, step and the columns of
    :class:`~mindsummary_lightning.reading.parameter_tables.ParameterTable`.

    Numbers are written so that they read back exactly. A tag that a spreadsheet would take for a formula, because it
    begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return, gets an apostrophe before it, and so does one
    that begins with an apostrophe: without its first apostrophe such a cell is the tag. A file without rows is not
    written.

    Args:
        run_dir: the run.
        out_dir: where the files go: a directory that is new or empty.
        progress: called with numbers of samples written.
        force: replace what an earlier export left in ``out_dir``.

    Returns:
        Paths of the files.

    Raises:
        DamagedFileError: a file of the run is damaged.
        FileExistsError: ``out_dir`` is not empty, or holds other files than those of an earlier export.
        OSError: a file cannot be written.
        RemotePathError: ``out_dir`` is not local.
    """
    refuse_remote("out_dir", out_dir)
    reader = SummaryReader(run_dir)
    with OutputDirectory(out_dir, mode_of_runs([run_dir]), force=force) as out:
        for name, header, rows in (
            ("scalars.csv", ("tag", "step", "wall_time", "value"), _scalar_rows(reader)),
            ("histograms.csv", _HISTOGRAM_COLUMNS, _histogram_rows(reader)),
            ("parameters.csv", ("parameter", "step", *COLUMNS), _parameter_rows(reader)),
        ):
            first = next(rows, None)
            if first is None:
                continue
            with out.file(name) as binary:
                file = io.TextIOWrapper(binary, encoding="utf-8", errors="backslashreplace", newline="")
                writer = csv.writer(file)
                writer.writerow(header)
                for tag, *numbers in itertools.chain([first], rows):
                    writer.writerow([_text_cell(tag), *numbers])
                    progress(1)
                file.detach()
    exported = ExportedFiles(out.files)
    exported.skip(reader, "image", "tensor", "loss_landscape", "graph", "lineage")
    return exported


def export_npy(
    run_dir: str, out_dir: str, progress: Callable[[int], object] = lambda count: None, *, force: bool = False
) -> ExportedFiles:
    """Write ``scalar/<tag>.npy`` (fields step, wall_time, value) and ``tensor/<tag>_<step>.npy``; tags percent-quoted.

    A tag of more than 180 characters is shortened and gets a short hash. ``names.json`` maps the files to their tags;
    ``parameter_statistics.json`` names the rows and columns of tables of parameters.

    Arguments, result and errors as :func:`export_csv`.
    """
    refuse_remote("out_dir", out_dir)
    reader = SummaryReader(run_dir)
    out = OutputDirectory(out_dir, mode_of_runs([run_dir]), force=force)
    tag_of_file: dict[str, str] = {}

    def save(name: str, tag: str, array: np.ndarray) -> None:
        with out.file(name) as file:
            np.save(file, array, allow_pickle=False)
        tag_of_file[name] = tag

    with out:
        series_by_tag = reader.all_scalars()
        for tag, series in series_by_tag.items():
            table = np.empty(len(series), [("step", np.int64), ("wall_time", np.float64), ("value", np.float32)])
            table["step"], table["wall_time"], table["value"] = series.steps, series.wall_times, series.values
            save(f"scalar/{quoted_name(tag)}.npy", tag, table)
            progress(len(series))
        for tag in reader.tags()["tensor"]:
            for step, _, tensor in reader.tensors(tag):
                save(f"tensor/{quoted_name(tag)}_{step}.npy", tag, tensor.data)
                progress(1)
        if tag_of_file:
            with out.file("names.json") as file:
                file.write(json.dumps(tag_of_file, indent=1).encode())
        parameters = reader.parameter_statistics()
        if parameters is not None:
            with out.file(ROW_NAMES_FILE) as file:
                file.write(encode_row_names(parameters.parameters))
    exported = ExportedFiles(out.files)
    exported.skip(reader, "image", "histogram", "loss_landscape", "graph", "lineage")
    return exported


def _scalar_rows(reader: SummaryReader) -> Iterator[tuple[Any, ...]]:
    for tag, series in reader.all_scalars().items():
        columns = (series.steps.tolist(), series.wall_times.tolist(), series.values)
        for step, wall_time, value in zip(*columns, strict=True):
            yield tag, step, repr(wall_time), str(value)


def _histogram_rows(reader: SummaryReader) -> Iterator[tuple[Any, ...]]:
    for tag, step, wall_time, histogram in samples_of(reader):
        sample = [getattr(histogram, field) for field in SAMPLE_COLUMNS.values()]
        buckets = zip(histogram.lefts.tolist(), histogram.widths.tolist(), histogram.counts.tolist(), strict=True)
        for left, width, count in list(buckets) or [(None, None, 0)]:
            yield tag, step, wall_time, left, width, count, *sample


def _parameter_rows(reader: SummaryReader) -> Iterator[tuple[Any, ...]]:
    table = reader.parameter_statistics()
    if table is not None:
        for step, values in zip(table.steps.tolist(), table.values, strict=True):
            for name, numbers in zip(table.parameters, values.tolist(), strict=True):
                yield name, step, *numbers


def _text_cell(tag: str) -> str:
    return f"'{tag}" if tag.startswith(("=", "+", "-", "@", "\t", "\r", "'")) else tag
