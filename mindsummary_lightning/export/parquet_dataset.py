"""One run or many as one Parquet data set, as pandas, DuckDB, Spark and Ray read it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from mindsummary_lightning.reading.summary_reader import SummaryReader, table_of
from mindsummary_lightning.recording.npy_export import quoted_name
from mindsummary_lightning.values.lineage_info import EXACT_MAX
from mindsummary_lightning.values.text import listed, utf8_text

SAMPLE_COLUMNS = {"elements": "count"} | {
    name: name for name in ("nan_count", "pos_inf_count", "neg_inf_count", "min", "max", "sum")
}
"""Fields of a histogram by the column that has them in each row of its buckets."""

# Name of the first column, its texts and the number of rows of each, and the other columns.
_Block: TypeAlias = tuple[str, Sequence[str], Sequence[int], dict[str, Any]]
_T = TypeVar("_T")
Progress: TypeAlias = Callable[[int], object]

_BLOCK_ROWS = 1 << 16
_BUCKET_COLUMNS = (
    ("left", "lefts", np.float64),
    ("width", "widths", np.float64),
    ("count", "counts", np.int64),
)
_INT64 = range(-(2**63), 2**63)
_RENAMED = "columns of lineage.parquet have another name, because DuckDB does not distinguish upper and lower case"
_LISTED = 5  # of them, in a note


def export_parquet(
    run_dir: str,
    out_dir: str,
    progress: Callable[[int], object] = lambda count: None,
    *,
    force: bool = False,
) -> ExportedFiles:
    """Write one run as :func:`export_parquet_dataset` does, under the name of its directory.

    Arguments, result and errors as there.
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
    """Write ``scalars``, ``histograms`` and ``parameters``, and ``lineage.parquet`` with a row per run.

    Each of the three is a folder with ``<run>/part-0.parquet`` for every run that has rows, the
    run's name percent-encoded. The columns are ``run``, a text, also where the name is a number,
    and those of the CSV files, wall times in seconds and values float32. ``lineage.parquet`` has
    ``run`` and the columns of :func:`~mindsummary_lightning.runs_to_pandas`; a column of several
    types is text. Of names that differ by case only, the second becomes ``name (2)``.

    Args:
        run_dirs: the runs. One that is damaged or cannot be read is skipped, unless all are.
        root: the directory that their names are relative to; it itself has the name of the
            directory.
        out_dir: where the files go: a directory that is new or empty.
        progress: called with bytes of the runs' files.
        force: replace what an earlier export left in ``out_dir``.

    Returns:
        Paths of the files.

    Raises:
        DamagedFileError: every run is damaged.
        FileExistsError: ``out_dir`` is not empty, or holds other files than those of an earlier
            export.
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
                # histograms first: only they can prove to be damaged once they are written
                tables = {
                    "histograms": _histogram_blocks(run, pyarrow),
                    "scalars": _scalar_blocks(run),
                    "parameters": _parameter_blocks(read_parameter_table(run)),
                }
                exported.skip(reader, "image", "tensor", "loss_landscape", "graph")
                told = in_bytes(run, ("scalar", "histogram"), progress)
                for table, blocks in tables.items():
                    path, counting = (
                        f"{table}/{_folder(name)}/part-0.parquet",
                        table != "parameters",
                    )
                    _write(
                        pyarrow, out, path, name, blocks, told if counting else lambda count: None
                    )
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


def samples_of(run: FollowedRun, kind: str) -> Iterator[tuple[str, int, float, Any]]:
    """Tag, step, wall time and value of every sample of a kind, one at a time; each file is opened once."""
    with OpenFiles() as files:
        for tag in run.tags()[kind]:
            for sample in run.samples(kind, tag):
                yield tag, sample.step, sample.wall_time, files.value(sample.location)


def in_bytes(run: FollowedRun, kinds: Collection[str], progress: Progress) -> Progress:
    """What takes numbers of written samples of these kinds and tells ``progress`` their share of the run's bytes."""
    tags = run.tags()
    scalars = (
        part for tag in tags["scalar"] if "scalar" in kinds for part in run.scalar_parts(tag)
    )
    others = (run.rows(kind, tag)[1] for kind in kinds if kind != "scalar" for tag in tags[kind])
    samples, size = sum(map(len, scalars)) + sum(map(len, others)) or 1, files_size(run.run_dir)
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


def _write(
    pyarrow: Any,
    out: OutputDirectory,
    name: str,
    run: str,
    blocks: Iterator[_Block],
    progress: Progress,
) -> None:
    """A file with a row group for each block, unless there is none."""
    first = next(blocks, None)
    if first is None:
        return
    with out.file(name) as file, contextlib.ExitStack() as stack:
        writer = None
        for label, texts, sizes, columns in itertools.chain([first], blocks):
            codes = pyarrow.array(np.repeat(np.arange(len(texts)), sizes))
            labels = pyarrow.array(texts, pyarrow.string()).take(codes)
            runs = pyarrow.array([run], pyarrow.string()).take(
                pyarrow.array(np.zeros(len(codes), np.int64))
            )
            table = pyarrow.table({"run": runs, label: labels, **columns})
            if writer is None:
                writer = stack.enter_context(pyarrow.parquet.ParquetWriter(file, table.schema))
            writer.write_table(table)
            progress(sum(sizes) if name.startswith("scalars/") else len(texts))


def _write_runs(pyarrow: Any, out: OutputDirectory, rows: Sequence[RunRow]) -> list[str]:
    """Write the table of runs; which columns have another name there than the values that they hold."""
    recorded = _run_columns(rows)
    names = _distinct_names(recorded)
    columns = {names[column]: cells for column, cells in recorded.items()}
    table = pyarrow.table(columns).replace_schema_metadata(_for_pandas(columns))
    with out.file("lineage.parquet") as file:
        pyarrow.parquet.write_table(table, file)
    return [f"{column} is {name}" for column, name in names.items() if name != column]


def _batches(items: Iterable[_T], size: Callable[[_T], int]) -> Iterator[list[_T]]:
    """The items, as many at a time as have the rows of a block."""
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


def _scalar_blocks(run: FollowedRun) -> Iterator[_Block]:
    parts = ((tag, part) for tag in run.tags()["scalar"] for part in run.scalar_parts(tag))
    for batch in _batches(parts, lambda part: len(part[1])):
        fields = (("step", "steps"), ("wall_time", "wall_times"), ("value", "values"))
        columns = {
            name: np.concatenate([getattr(part, field) for _, part in batch])
            for name, field in fields
        }
        yield "tag", [tag for tag, _ in batch], [len(part) for _, part in batch], columns


def _histogram_blocks(run: FollowedRun, pyarrow: Any) -> Iterator[_Block]:
    for batch in _batches(
        samples_of(run, "histogram"), lambda sample: max(1, sample[3].counts.size)
    ):
        tags, steps, wall_times, values = zip(*batch, strict=True)
        # a sample without buckets has a row too
        sizes = [max(1, one.counts.size) for one in values]
        is_empty = np.repeat([one.counts.size == 0 for one in values], sizes)
        none = np.zeros(1)
        columns: dict[str, Any] = {
            "step": np.repeat(np.array(steps, np.int64), sizes),
            "wall_time": np.repeat(np.array(wall_times, np.float64), sizes),
        }
        for column, field, kind in _BUCKET_COLUMNS:
            cells = np.concatenate(
                [getattr(one, field) if one.counts.size else none for one in values]
            ).astype(kind)
            columns[column] = pyarrow.array(cells, mask=is_empty if column != "count" else None)
        rows = pyarrow.array(np.repeat(np.arange(len(values)), sizes))
        for column, field in SAMPLE_COLUMNS.items():
            kind = pyarrow.float64() if column in ("min", "max", "sum") else pyarrow.int64()
            columns[column] = pyarrow.array([getattr(one, field) for one in values], kind).take(
                rows
            )
        yield "tag", tags, sizes, columns


def _parameter_blocks(table: ParameterTable | None) -> Iterator[_Block]:
    if table is not None:
        steps, rows, _ = table.values.shape
        numbers = dict(
            zip(table.columns, table.values.reshape(steps * rows, -1).T.copy(), strict=True)
        )
        yield (
            "parameter",
            table.parameters * steps,
            [1] * (rows * steps),
            {"step": np.repeat(table.steps, rows), **numbers},
        )


def _run_columns(rows: Sequence[RunRow]) -> dict[str, list[Any]]:
    """The table of runs by column, as :func:`~mindsummary_lightning.runs_to_pandas` has it."""
    columns: dict[str, list[Any]] = {"run": [row.run for row in rows]}
    for name in ordered_columns(rows):
        cells = [row.cells.get(name) for row in rows]
        columns[name] = [time_of(cell) for cell in cells] if name in TIMES else _one_type(cells)
    columns["path"] = [utf8_text(row.path) for row in rows]
    return columns


def _folder(name: str) -> str:
    """The folder of a run: its name percent-quoted, and so that Arrow and Spark, which skip ``.`` and ``_``, see it."""
    quoted = quoted_name(name)
    return f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[0] in "._" else quoted


def _distinct_names(columns: Collection[str]) -> dict[str, str]:
    """The columns' names in a file, no two of which differ by case only: the later one has a number after it."""
    names: dict[str, str] = {}
    taken = {column.casefold() for column in columns}
    used: set[str] = set()
    for column in columns:
        name, number = column, 2
        while name.casefold() in used or (name != column and name.casefold() in taken):
            name, number = f"{column} ({number})", number + 1
        names[column] = name
        used.add(name.casefold())
    return names


def _for_pandas(columns: Mapping[str, Sequence[Any]]) -> dict[str, str] | None:
    """Metadata that let pandas keep ints beyond 2**53 of a column with gaps, which it would make floats."""
    exact = [
        name
        for name, cells in columns.items()
        if None in cells and any(type(cell) is int and abs(cell) > EXACT_MAX for cell in cells)
    ]
    if not exact:
        return None
    kinds = {"pandas_type": "int64", "numpy_type": "Int64", "metadata": None}
    described = [{"name": name, "field_name": name, **kinds} for name in exact]
    return {"pandas": json.dumps({"index_columns": [], "column_indexes": [], "columns": described})}


def _one_type(cells: list[Any]) -> list[Any]:
    """The cells as they are if they are numbers, booleans or texts only, else all as text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float} and all(
        cell is None or float(cell) == cell for cell in cells if type(cell) is int
    ):
        return [float(cell) if type(cell) is int else cell for cell in cells]
    if (
        len(kinds) <= 1
        and kinds <= {int, float, bool, str}
        and all(c in _INT64 for c in cells if type(c) is int)
    ):
        return cells
    return [None if cell is None else str(cell) for cell in cells]
