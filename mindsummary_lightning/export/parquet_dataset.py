"""One run or many as one Parquet data set, as pandas, DuckDB, Spark and Ray read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mindsummary_lightning.conversion.arguments import refuse_remote
from mindsummary_lightning.errors import DamagedFileError, missing_packages
from mindsummary_lightning.export.lineage_text import lineage_values
from mindsummary_lightning.export.output_directory import ExportedFiles, OutputDirectory, mode_of_runs
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.recording.npy_export import quoted_name
from mindsummary_lightning.values import Histogram
from mindsummary_lightning.values.text import utf8_text

SAMPLE_COLUMNS = {"elements": "count"} | {
    name: name for name in ("nan_count", "pos_inf_count", "neg_inf_count", "min", "max", "sum")
}
"""Fields of a histogram by the column that has them in each row of its buckets."""

_TABLES = ("scalars", "histograms", "parameters")
_INT64 = range(-(2**63), 2**63)


def export_parquet(
    run_dir: str, out_dir: str, progress: Callable[[int], object] = lambda count: None, *, force: bool = False
) -> ExportedFiles:
    """Write one run as :func:`export_parquet_dataset` does, under the name of its directory.

    Arguments, result and errors as there.
    """
    run_dir = os.path.abspath(run_dir)
    return export_parquet_dataset([run_dir], os.path.dirname(run_dir), out_dir, progress, force=force)


def export_parquet_dataset(
    run_dirs: Sequence[str],
    root: str,
    out_dir: str,
    progress: Callable[[int], object] = lambda count: None,
    *,
    force: bool = False,
) -> ExportedFiles:
    """Write ``scalars``, ``histograms`` and ``parameters``, and ``lineage.parquet`` with a row per run.

    Each of the three is a folder with ``<run>/part-0.parquet`` for every run that has rows, the run's name
    percent-encoded. The columns are ``run``, a text, also where the name is a number, and those of the CSV files, wall
    times in seconds and values float32. ``lineage.parquet`` has ``run`` and a column per value that any run recorded; a
    column of several types is text.

    Args:
        run_dirs: the runs. One that is damaged or cannot be read is skipped, unless all are.
        root: the directory that their names are relative to; it itself has the name of the directory.
        out_dir: where the files go: a directory that is new or empty.
        progress: called with 1 for each run.
        force: replace what an earlier export left in ``out_dir``.

    Returns:
        Paths of the files.

    Raises:
        DamagedFileError: every run is damaged.
        FileExistsError: ``out_dir`` is not empty, or holds other files than those of an earlier export.
        ImportError: pyarrow is missing.
        OSError: a file cannot be written, or no run can be read.
        RemotePathError: ``out_dir`` is not local.
    """
    pyarrow, write_table = _import_pyarrow()
    refuse_remote("out_dir", out_dir)
    names = {run_dir: utf8_text(os.path.relpath(run_dir, root)) for run_dir in run_dirs}
    itself = utf8_text(os.path.basename(os.path.abspath(root)))
    names = {run: itself if name == "." and itself not in names.values() else name for run, name in names.items()}
    exported, rows = ExportedFiles(), []
    with OutputDirectory(out_dir, mode_of_runs(run_dirs), force=force) as out:

        def save(name: str, columns: Mapping[str, Any]) -> None:
            with out.file(name) as file:
                write_table(pyarrow.table(columns), file)

        for run_dir, name in names.items():
            try:
                reader = SummaryReader(run_dir)
                columns_of = (_scalar_columns(reader), _histogram_columns(reader, pyarrow), _parameter_columns(reader))
                tables = dict(zip(_TABLES, columns_of, strict=True))
                rows.append({"run": name, **_renamed_run(lineage_values(reader.lineage()))})
                exported.skip(reader, "image", "tensor", "loss_landscape", "graph")
            except (DamagedFileError, OSError) as error:
                exported.damaged[name] = str(error)
                if len(exported.damaged) == len(names):
                    raise
                continue
            for table, columns in tables.items():
                if len(columns["step"]):
                    label = next(iter(columns))
                    texts, codes = columns.pop(label)
                    runs = pyarrow.array([name], pyarrow.string()).take(np.zeros(len(codes), np.int64))
                    labels = pyarrow.array(texts, pyarrow.string()).take(pyarrow.array(codes))
                    save(f"{table}/{_folder(name)}/part-0.parquet", {"run": runs, label: labels, **columns})
            progress(1)
        recorded = dict.fromkeys(column for row in rows for column in row)
        columns = {column: _one_type([row.get(column) for row in rows]) for column in recorded}
        save("lineage.parquet", columns)
    exported[:] = out.files
    return exported


def samples_of(reader: SummaryReader) -> Iterator[tuple[str, int, float, Histogram]]:
    """Tag, step, wall time and value of every histogram of a run."""
    for tag in reader.tags()["histogram"]:
        for step, wall_time, histogram in reader.histograms(tag):
            yield tag, step, wall_time, histogram


def _import_pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise missing_packages("Parquet", "pyarrow") from error
    return pyarrow, pyarrow.parquet.write_table


def _scalar_columns(reader: SummaryReader) -> dict[str, Any]:
    series = reader.all_scalars()
    fields = {"step": ("steps", np.int64), "wall_time": ("wall_times", np.float64), "value": ("values", np.float32)}
    return {
        "tag": (list(series), np.repeat(np.arange(len(series)), [len(one) for one in series.values()])),
        **{
            column: np.concatenate([np.empty(0, dtype), *(getattr(one, field) for one in series.values())])
            for column, (field, dtype) in fields.items()
        },
    }


def _histogram_columns(reader: SummaryReader, pyarrow: Any) -> dict[str, Any]:
    samples = list(samples_of(reader))
    histograms = [histogram for *_, histogram in samples]
    sizes = [max(1, one.counts.size) for one in histograms]  # a sample without buckets has a row too
    tags = reader.tags()["histogram"]
    code_of = {tag: code for code, tag in enumerate(tags)}
    columns: dict[str, Any] = {"tag": (tags, np.repeat([code_of[tag] for tag, *_ in samples], sizes).astype(np.int64))}
    columns["step"] = np.repeat(np.array([step for _, step, _, _ in samples], np.int64), sizes)
    columns["wall_time"] = np.repeat(np.array([wall_time for _, _, wall_time, _ in samples], np.float64), sizes)
    none = pyarrow.nulls(1, pyarrow.float64())
    for column, field in (("left", "lefts"), ("width", "widths")):
        edges = (getattr(one, field) for one in histograms)
        columns[column] = pyarrow.chunked_array(
            [pyarrow.array(part, pyarrow.float64()) if part.size else none for part in edges], pyarrow.float64()
        )
    empty = np.zeros(1, np.int64)
    columns["count"] = np.concatenate([empty[:0], *(one.counts if one.counts.size else empty for one in histograms)])
    for column, field in SAMPLE_COLUMNS.items():
        kind = (
            pyarrow.int64()
            if column in ("elements", "nan_count", "pos_inf_count", "neg_inf_count")
            else pyarrow.float64()
        )
        cells = pyarrow.array([getattr(one, field) for one in histograms], kind)
        columns[column] = cells.take(pyarrow.array(np.repeat(np.arange(len(histograms)), sizes)))
    return columns


def _parameter_columns(reader: SummaryReader) -> dict[str, Any]:
    table = reader.parameter_statistics()
    if table is None:
        return {"parameter": ((), ()), "step": ()}
    steps, rows, _ = table.values.shape
    return {
        "parameter": (table.parameters, np.tile(np.arange(rows), steps)),
        "step": np.repeat(table.steps, rows),
        **dict(zip(table.columns, table.values.reshape(steps * rows, -1).T.copy(), strict=True)),
    }


def _folder(name: str) -> str:
    """The folder of a run: its name percent-quoted, and so that Arrow and Spark, which skip ``.`` and ``_``, see it."""
    quoted = quoted_name(name)
    return f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[0] in "._" else quoted


def _renamed_run(row: dict[str, Any]) -> dict[str, Any]:
    """The row with a value that is called ``run`` under another name: the run has this one."""
    return {"user_defined/run" if name == "run" else name: value for name, value in row.items()}


def _one_type(cells: list[Any]) -> list[Any]:
    """The cells as they are if they are numbers, booleans or texts only, else all as text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float} and all(cell is None or float(cell) == cell for cell in cells if type(cell) is int):
        return [float(cell) if type(cell) is int else cell for cell in cells]
    if len(kinds) <= 1 and kinds <= {int, float, bool, str} and all(c in _INT64 for c in cells if type(c) is int):
        return cells
    return [None if cell is None else str(cell) for cell in cells]
