"""Export runs as a Parquet data set that pandas, DuckDB, Spark and Ray can read."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from mindsummary_lightning.conversion.arguments import refuse_remote
from mindsummary_lightning.errors import DamagedFileError, missing_packages
from mindsummary_lightning.export.output_directory import (
    ExportedFiles,
    OutputDirectory,
    mode_of_runs,
)
from mindsummary_lightning.lineage.run_rows import TIMES, RunRow, RunRows, ordered_columns, time_of
from mindsummary_lightning.reading.decode import OpenFiles
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.parameter_tables import ParameterTable, read_parameter_table
from mindsummary_lightning.reading.run_directory import files_size
from mindsummary_lightning.reading.run_names import run_names
from mindsummary_lightning.reading.scalar_summaries import RunScalars, run_scalars
from mindsummary_lightning.reading.series import ScalarSeries
from mindsummary_lightning.reading.summary_reader import SummaryReader, table_of
from mindsummary_lightning.recording.npy_export import quoted_name
from mindsummary_lightning.values import Histogram
from mindsummary_lightning.values.lineage_info import EXACT_MAX
from mindsummary_lightning.values.text import listed, utf8_text

SAMPLE_COLUMNS = {"elements": "count"} | {
    name: name for name in ("nan_count", "pos_inf_count", "neg_inf_count", "min", "max", "sum")
}
"""Fields of a histogram by column; every row of a histogram repeats them."""

_T = TypeVar("_T")
Progress: TypeAlias = Callable[[int], object]

_BLOCK_ROWS = 1 << 16
_BUCKET_COLUMNS = (
    ("left", "lefts", np.float64),
    ("width", "widths", np.float64),
    ("count", "counts", np.int64),
)
_INT64 = range(-(2**63), 2**63)
_RENAMED = (
    "columns of lineage.parquet have another name, because DuckDB does not distinguish upper and "
    "lower case"
)
_LISTED = 5  # of them, in a note


@dataclass(frozen=True)
class _RowBlock:
    """Rows of a table that are written together as a Parquet row group.

    Attributes:
        label: name of the first column.
        texts: the texts of the first column, without repetitions.
        sizes: for each text, the number of rows that repeat it.
        columns: the other columns by name.
    """

    label: str
    texts: Sequence[str]
    sizes: Sequence[int]
    columns: dict[str, Any]


def export_parquet(
    run_dir: str,
    out_dir: str,
    progress: Callable[[int], object] = lambda count: None,
    *,
    force: bool = False,
) -> ExportedFiles:
    """Export a run as a Parquet data set.

    The run has the name of its directory. Arguments, result and errors are as for
    :func:`export_parquet_dataset`.
    """
    run_dir = os.path.abspath(run_dir)
    return export_parquet_dataset(
        [run_dir], os.path.dirname(run_dir), out_dir, progress, force=force
    )


def export_parquet_dataset(
    run_dirs: Sequence[str],
    root: str,
    out_dir: str,
    progress: Callable[[int], object] = lambda count: None,
    *,
    force: bool = False,
) -> ExportedFiles:
    """Export several runs as Parquet files: their values, and a table of the runs.

    The values are in the folders ``scalars``, ``histograms`` and ``parameters``. They contain
    ``<run>/part-0.parquet`` for every run that has rows; the run's name is percent-encoded. The
    columns are ``run`` (a text, also if the name is a number), and the columns of the CSV files,
    with wall times in seconds and values in float32.

    The table of runs is ``lineage.parquet``. It has ``run`` and the columns of
    :func:`~mindsummary_lightning.runs_to_pandas`. A column of several types becomes text. If two
    names differ only in case, the second becomes ``name (2)``.

    Args:
        run_dirs: the runs. A run that is damaged or cannot be read is skipped, unless this is so
            for every run.
        root: the directory that the runs' names are relative to. If ``root`` itself is a run, it
            has the name of the directory.
        out_dir: the output directory, which must be new or empty.
        progress: called with numbers of bytes of the runs' files, as they are exported.
        force: replace the files of an earlier export in ``out_dir``.

    Returns:
        Paths of the files.

    Raises:
        DamagedFileError: every run is damaged.
        FileExistsError: ``out_dir`` is not empty, or holds files that no earlier export wrote.
        ImportError: pyarrow is missing.
        OSError: a file cannot be written, or no run can be read.
        RemotePathError: ``out_dir`` is not local.
    """
    pyarrow = _import_pyarrow()
    refuse_remote("out_dir", out_dir)
    names = run_names(run_dirs, root)
    exported = ExportedFiles()
    scalars: dict[str, RunScalars] = {}
    with OutputDirectory(out_dir, mode_of_runs(run_dirs), force=force) as out:
        for run_dir, name in names.items():
            try:
                reader = SummaryReader(run_dir)
                run = table_of(reader)
                reader.lineage()  # which may be damaged, too
                exported.skip(reader, "image", "tensor", "loss_landscape", "graph")
                _write_tables(pyarrow, out, name, run, progress)
            except (DamagedFileError, OSError) as error:
                exported.damaged[name] = str(error)
                if len(exported.damaged) == len(names):
                    raise
                continue
            scalars[name] = run_scalars(run)
        rows = RunRows(root, only=scalars.keys())
        rows.take_scalars(scalars)
        renamed = _write_runs(pyarrow, out, rows.rows)
    if renamed:
        exported.changed[f"{_RENAMED}: {listed(renamed, _LISTED)}"] = len(renamed)
    exported[:] = out.files
    return exported


def _write_tables(
    pyarrow: Any, out: OutputDirectory, name: str, run: FollowedRun, progress: Progress
) -> None:
    """Write scalars, histograms and parameter statistics of a run to Parquet files."""
    folder = _folder(name)
    advance = in_bytes(run, ("scalar", "histogram"), progress)
    # histograms first: only they can prove to be damaged once they are written
    histograms = f"histograms/{folder}/part-0.parquet"
    for block in _written(pyarrow, out, histograms, name, _histogram_blocks(run, pyarrow)):
        advance(len(block.texts))
    scalars = f"scalars/{folder}/part-0.parquet"
    for block in _written(pyarrow, out, scalars, name, _scalar_blocks(run)):
        advance(sum(block.sizes))
    parameters = f"parameters/{folder}/part-0.parquet"
    for _ in _written(pyarrow, out, parameters, name, _parameter_blocks(read_parameter_table(run))):
        pass


def samples_of(run: FollowedRun, kind: str) -> Iterator[tuple[str, int, float, Any]]:
    """Yield tag, step, wall time and value of all samples of the given kind.

    Samples are read one at a time. Every file is opened once.
    """
    with OpenFiles() as files:
        for tag in run.tags()[kind]:
            for sample in run.samples(kind, tag):
                yield tag, sample.step, sample.wall_time, files.value(sample.location)


def in_bytes(run: FollowedRun, kinds: Collection[str], progress: Progress) -> Progress:
    """Return a function that reports progress in bytes for written samples.

    The bytes are passed to ``progress``; in all they are the size of the run's files. ``kinds`` are
    the kinds of samples that are written.
    """
    tags = run.tags()
    samples = 0
    for kind in kinds:
        for tag in tags[kind]:
            if kind == "scalar":
                samples += sum(map(len, run.scalar_parts(tag)))
            else:
                samples += len(run.rows(kind, tag)[1])
    samples = samples or 1
    size = files_size(run.run_dir)
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        before, done = size * done // samples, done + count
        progress(size * done // samples - before)

    return tell


def _import_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise missing_packages("Parquet", "pyarrow") from error
    return pyarrow


def _written(
    pyarrow: Any, out: OutputDirectory, name: str, run: str, blocks: Iterator[_RowBlock]
) -> Iterator[_RowBlock]:
    """Write blocks of rows to a Parquet file; yield each block after writing it.

    A block becomes a row group. Without blocks, no file is written.
    """
    first = next(blocks, None)
    if first is None:
        return
    with out.file(name) as file, contextlib.ExitStack() as stack:
        writer = None
        for block in itertools.chain([first], blocks):
            codes = pyarrow.array(np.repeat(np.arange(len(block.texts)), block.sizes))
            labels = pyarrow.array(block.texts, pyarrow.string()).take(codes)
            only_run = pyarrow.array(np.zeros(len(codes), np.int64))
            runs = pyarrow.array([run], pyarrow.string()).take(only_run)
            table = pyarrow.table({"run": runs, block.label: labels, **block.columns})
            if writer is None:
                writer = stack.enter_context(pyarrow.parquet.ParquetWriter(file, table.schema))
            writer.write_table(table)
            yield block


def _write_runs(pyarrow: Any, out: OutputDirectory, rows: Sequence[RunRow]) -> list[str]:
    """Write the table of runs to ``lineage.parquet``; list the renamed columns."""
    recorded = _run_columns(rows)
    names = _distinct_names(recorded)
    columns = {}
    renamed = []
    for column, cells in recorded.items():
        name = names[column]
        columns[name] = cells
        if name != column:
            renamed.append(f"{column} is {name}")
    table = pyarrow.table(columns).replace_schema_metadata(_for_pandas(columns))
    with out.file("lineage.parquet") as file:
        pyarrow.parquet.write_table(table, file)
    return renamed


def _batches(items: Iterable[_T], size: Callable[[_T], int]) -> Iterator[list[_T]]:
    """Group items into lists; a list ends once its items have 65,536 rows or more."""
    batch: list[_T] = []
    rows = 0
    for item in items:
        batch.append(item)
        rows += size(item)
        if rows >= _BLOCK_ROWS:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def _scalar_blocks(run: FollowedRun) -> Iterator[_RowBlock]:
    for batch in _batches(_tagged_parts(run), lambda part: len(part[1])):
        tags, parts = zip(*batch, strict=True)
        columns = {
            "step": np.concatenate([part.steps for part in parts]),
            "wall_time": np.concatenate([part.wall_times for part in parts]),
            "value": np.concatenate([part.values for part in parts]),
        }
        yield _RowBlock("tag", tags, list(map(len, parts)), columns)


def _tagged_parts(run: FollowedRun) -> Iterator[tuple[str, ScalarSeries]]:
    for tag in run.tags()["scalar"]:
        for part in run.scalar_parts(tag):
            yield tag, part


def _histogram_blocks(run: FollowedRun, pyarrow: Any) -> Iterator[_RowBlock]:
    samples = samples_of(run, "histogram")
    for batch in _batches(samples, lambda sample: _bucket_rows(sample[3])):
        tags, steps, wall_times, values = zip(*batch, strict=True)
        sizes = list(map(_bucket_rows, values))
        columns: dict[str, Any] = {
            "step": np.repeat(np.array(steps, np.int64), sizes),
            "wall_time": np.repeat(np.array(wall_times, np.float64), sizes),
        }
        columns.update(_bucket_columns(pyarrow, values, sizes))
        rows = pyarrow.array(np.repeat(np.arange(len(values)), sizes))
        for column, field in SAMPLE_COLUMNS.items():
            kind = pyarrow.float64() if column in ("min", "max", "sum") else pyarrow.int64()
            cells = pyarrow.array([getattr(value, field) for value in values], kind)
            columns[column] = cells.take(rows)
        yield _RowBlock("tag", tags, sizes, columns)


def _bucket_rows(histogram: Histogram) -> int:
    """Return the number of table rows of a histogram: its buckets, at least 1."""
    return max(1, histogram.counts.size)


def _bucket_columns(
    pyarrow: Any, values: Sequence[Histogram], sizes: Sequence[int]
) -> dict[str, Any]:
    """Return the columns ``left``, ``width`` and ``count`` of histograms' buckets.

    A histogram without buckets has a row whose left and width are null.
    """
    is_empty = np.repeat([value.counts.size == 0 for value in values], sizes)
    zero = np.zeros(1)
    columns = {}
    for column, field, kind in _BUCKET_COLUMNS:
        numbers = []
        for value in values:
            numbers.append(getattr(value, field) if value.counts.size else zero)
        cells = np.concatenate(numbers).astype(kind)
        columns[column] = pyarrow.array(cells, mask=is_empty if column != "count" else None)
    return columns


def _parameter_blocks(table: ParameterTable | None) -> Iterator[_RowBlock]:
    if table is None:
        return
    steps, rows, _ = table.values.shape
    columns: dict[str, Any] = {"step": np.repeat(table.steps, rows)}
    numbers = table.values.reshape(steps * rows, -1).T.copy()
    columns.update(zip(table.columns, numbers, strict=True))
    yield _RowBlock("parameter", table.parameters * steps, [1] * (rows * steps), columns)


def _run_columns(rows: Sequence[RunRow]) -> dict[str, list[Any]]:
    """Return the columns of the table of runs, as ``runs_to_pandas`` has them."""
    columns: dict[str, list[Any]] = {"run": [row.run for row in rows]}
    for name in ordered_columns(rows):
        cells = [row.cells.get(name) for row in rows]
        columns[name] = [time_of(cell) for cell in cells] if name in TIMES else _one_type(cells)
    columns["path"] = [utf8_text(row.path) for row in rows]
    return columns


def _folder(name: str) -> str:
    """Return the folder name of a run: its name percent-encoded.

    A leading ``.`` or ``_`` is encoded too, because Arrow and Spark skip such folders.
    """
    quoted = quoted_name(name)
    if quoted[0] in "._":
        return f"%{ord(quoted[0]):02X}{quoted[1:]}"
    return quoted


def _distinct_names(columns: Collection[str]) -> dict[str, str]:
    """Rename columns so that no two names differ only in case; return the new names.

    Of two such names, the later name gets a number after it.
    """
    names: dict[str, str] = {}
    taken = {column.casefold() for column in columns}
    used: set[str] = set()
    for column in columns:
        name, number = column, 2
        while _is_taken(name, column, taken, used):
            name, number = f"{column} ({number})", number + 1
        names[column] = name
        used.add(name.casefold())
    return names


def _is_taken(name: str, column: str, taken: Collection[str], used: Collection[str]) -> bool:
    """Tell whether ``name`` is, or will be, the name of another column."""
    folded = name.casefold()
    if folded in used:
        return True
    return name != column and folded in taken


def _for_pandas(columns: Mapping[str, Sequence[Any]]) -> dict[str, str] | None:
    """Return file metadata that make pandas read large ints with gaps as ``Int64``.

    Without the metadata, pandas converts a column with ints beyond 2**53 and missing cells to
    floats. ``None`` if there is no such column.
    """
    kinds = {"pandas_type": "int64", "numpy_type": "Int64", "metadata": None}
    described = []
    for name, cells in columns.items():
        is_large = any(type(cell) is int and abs(cell) > EXACT_MAX for cell in cells)
        if None in cells and is_large:
            described.append({"name": name, "field_name": name, **kinds})
    if not described:
        return None
    return {"pandas": json.dumps({"index_columns": [], "column_indexes": [], "columns": described})}


def _one_type(cells: list[Any]) -> list[Any]:
    """Convert the cells of a column to the same type.

    Numbers, booleans or texts stay as they are. Ints among floats become floats if the floats are
    exact. Everything else becomes text.
    """
    kinds = set(map(type, cells)) - {type(None)}
    integers = [cell for cell in cells if type(cell) is int]
    if kinds == {int, float} and all(float(integer) == integer for integer in integers):
        return [float(cell) if type(cell) is int else cell for cell in cells]
    is_one_type = len(kinds) <= 1 and kinds <= {int, float, bool, str}
    if is_one_type and all(integer in _INT64 for integer in integers):
        return cells
    return list(map(_cell_text, cells))


def _cell_text(cell: Any) -> str | None:
    return None if cell is None else str(cell)
