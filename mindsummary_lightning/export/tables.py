"""Export a run as CSV tables or as NumPy arrays.

The files appear together when all are complete, with the permissions of the run's files.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeAlias

import numpy as np

from mindsummary_lightning.conversion.arguments import refuse_remote
from mindsummary_lightning.export.output_directory import (
    ExportedFiles,
    OutputDirectory,
    mode_of_runs,
)
from mindsummary_lightning.export.parquet_dataset import SAMPLE_COLUMNS, in_bytes, samples_of
from mindsummary_lightning.export.parquet_dataset import export_parquet as export_parquet
from mindsummary_lightning.fileformat.row_names import ROW_NAMES_FILE, encode_row_names
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.parameter_tables import read_parameter_table
from mindsummary_lightning.reading.summary_reader import SummaryReader, table_of
from mindsummary_lightning.recording.npy_export import quoted_name
from mindsummary_lightning.values.statistics_columns import COLUMNS

_Rows: TypeAlias = Iterator[list[tuple[Any, ...]]]  # as many as are held at a time

_SAMPLE = np.dtype([("step", np.int64), ("wall_time", np.float64), ("value", np.float32)])
# those of full width count in Asian locales
_FORMULA = tuple("=+-@\uff1d\uff0b\uff0d\uff20\t\r\n'")
_HISTOGRAM_COLUMNS = ("tag", "step", "wall_time", "left", "width", "count", *SAMPLE_COLUMNS)


def export_csv(
    run_dir: str,
    out_dir: str,
    progress: Callable[[int], object] = lambda count: None,
    *,
    force: bool = False,
) -> ExportedFiles:
    """Export a run as ``scalars.csv``, ``histograms.csv`` and ``parameters.csv``.

    * ``scalars.csv`` has the columns tag, step, wall_time and value.
    * ``histograms.csv`` has a row per bucket. The columns are tag, step, wall_time, and left, width
      and count of the bucket. Then follow, repeated in each row of a sample, the number of its
      elements, the numbers of NaN, +inf and -inf, and min, max and sum of the finite elements. A
      sample without buckets (it has no finite element) has a row without left and width.
    * ``parameters.csv`` has a row per parameter and step: parameter, step and the columns of
      :class:`~mindsummary_lightning.reading.parameter_tables.ParameterTable`.

    Numbers are written so that they read back exactly. A spreadsheet would take some tags for a
    formula: tags that begin with ``=``, ``+``, ``-``, ``@``, one of these in full width, a tab or a
    line break. Such a tag gets an apostrophe before it. So does a tag that begins with an
    apostrophe: remove the first apostrophe of a cell to get the tag. A file without rows is not
    written.

    Args:
        run_dir: the run.
        out_dir: the output directory, which must be new or empty.
        progress: called with numbers of bytes of the run's files, as they are exported.
        force: replace the files of an earlier export in ``out_dir``.

    Returns:
        Paths of the files.

    Raises:
        DamagedFileError: a file of the run is damaged.
        FileExistsError: ``out_dir`` is not empty, or holds files that no earlier export wrote.
        OSError: a file cannot be written.
        RemotePathError: ``out_dir`` is not local.
    """
    refuse_remote("out_dir", out_dir)
    reader = SummaryReader(run_dir)
    run = table_of(reader)
    advance = in_bytes(run, ("scalar", "histogram"), progress)
    with OutputDirectory(out_dir, mode_of_runs([run_dir]), force=force) as out:
        for name, header, blocks in (
            ("scalars.csv", ("tag", "step", "wall_time", "value"), _scalar_rows(run)),
            ("histograms.csv", _HISTOGRAM_COLUMNS, _histogram_rows(run)),
            ("parameters.csv", ("parameter", "step", *COLUMNS), _parameter_rows(run)),
        ):
            first = next(blocks, None)
            if first is None:
                continue
            with out.file(name) as binary:
                file = io.TextIOWrapper(
                    binary, encoding="utf-8", errors="backslashreplace", newline=""
                )
                writer = csv.writer(file)
                writer.writerow(header)
                for rows in itertools.chain([first], blocks):
                    writer.writerows(rows)
                    advance(len(rows) if name == "scalars.csv" else int(name == "histograms.csv"))
                file.detach()
    exported = ExportedFiles(out.files)
    exported.skip(reader, "image", "tensor", "loss_landscape", "graph", "lineage")
    return exported


def export_npy(
    run_dir: str,
    out_dir: str,
    progress: Callable[[int], object] = lambda count: None,
    *,
    force: bool = False,
) -> ExportedFiles:
    """Export a run's scalars and tensors as ``.npy`` files of NumPy.

    The files are ``scalar/<tag>.npy`` and ``tensor/<tag>_<step>.npy``.

    A scalar's file is a structured array with the fields step, wall_time and value. Tags are
    percent-encoded. A tag of more than 180 characters is shortened and gets a short hash.
    ``names.json`` maps the files to their tags. ``parameter_statistics.json`` has the names of the
    rows and columns of tables of parameters.

    Arguments, result and errors are as for :func:`export_csv`.
    """
    refuse_remote("out_dir", out_dir)
    reader = SummaryReader(run_dir)
    run = table_of(reader)
    advance = in_bytes(run, ("scalar", "tensor"), progress)
    tag_of_file: dict[str, str] = {}
    with OutputDirectory(out_dir, mode_of_runs([run_dir]), force=force) as out:
        for tag in run.tags()["scalar"]:
            name = f"scalar/{quoted_name(tag)}.npy"
            with out.file(name) as file:
                count = _write_scalar(file, run, tag)
            tag_of_file[name] = tag
            advance(count)
        for tag, step, _, tensor in samples_of(run, "tensor"):
            name = f"tensor/{quoted_name(tag)}_{step}.npy"
            with out.file(name) as file:
                np.save(file, tensor.data, allow_pickle=False)
            tag_of_file[name] = tag
            advance(1)
        if tag_of_file:
            with out.file("names.json") as file:
                file.write(json.dumps(tag_of_file, indent=1).encode())
        parameters = read_parameter_table(run)
        if parameters is not None:
            with out.file(ROW_NAMES_FILE) as file:
                file.write(encode_row_names(parameters.parameters))
    exported = ExportedFiles(out.files)
    exported.skip(reader, "image", "histogram", "loss_landscape", "graph", "lineage")
    return exported


def _write_scalar(file: IO[bytes], run: FollowedRun, tag: str) -> int:
    """Write the samples of a scalar to a NumPy file; return the number of samples."""
    count = sum(map(len, run.scalar_parts(tag)))
    header = {
        "descr": np.lib.format.dtype_to_descr(_SAMPLE),
        "fortran_order": False,
        "shape": (count,),
    }
    np.lib.format.write_array_header_1_0(file, header)
    for part in run.scalar_parts(tag):
        table = np.empty(len(part), _SAMPLE)
        table["step"] = part.steps
        table["wall_time"] = part.wall_times
        table["value"] = part.values
        file.write(table.tobytes())
    return count


def _scalar_rows(run: FollowedRun) -> _Rows:
    for tag in run.tags()["scalar"]:
        for part in run.scalar_parts(tag):
            names = itertools.repeat(_text_cell(tag))
            wall_times = map(repr, part.wall_times.tolist())
            values = map(str, part.values)
            yield list(zip(names, part.steps.tolist(), wall_times, values, strict=False))


def _histogram_rows(run: FollowedRun) -> _Rows:
    for tag, step, wall_time, histogram in samples_of(run, "histogram"):
        sample = [getattr(histogram, field) for field in SAMPLE_COLUMNS.values()]
        buckets = zip(
            histogram.lefts.tolist(),
            histogram.widths.tolist(),
            histogram.counts.tolist(),
            strict=True,
        )
        rows = list(buckets) or [(None, None, 0)]
        yield [(_text_cell(tag), step, wall_time, *bucket, *sample) for bucket in rows]


def _parameter_rows(run: FollowedRun) -> _Rows:
    table = read_parameter_table(run)
    if table is None:
        return
    names = list(map(_text_cell, table.parameters))
    for step, values in zip(table.steps.tolist(), table.values, strict=True):
        rows = zip(names, values.tolist(), strict=True)
        yield [(name, step, *numbers) for name, numbers in rows]


def _text_cell(tag: str) -> str:
    return f"'{tag}" if tag.startswith(_FORMULA) else tag
