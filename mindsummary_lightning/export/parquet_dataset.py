"""One run or many as one Parquet data set, as pandas, DuckDB, Spark and Ray read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mindsummary_lightning.conversion.arguments import refuse_remote
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.export.lineage_text import lineage_values
from mindsummary_lightning.export.output_directory import ExportedFiles, OutputDirectory, distinct_names, mode_of_runs
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import Histogram

SAMPLE_FIELDS = ("count", "nan_count", "pos_inf_count", "neg_inf_count", "min", "max", "sum")
_TABLES = ("scalars", "histograms", "histogram_samples")
_INT64 = range(-(2**63), 2**63)


def export_parquet(run_dir: str, out_dir: str, progress: Callable[[int], object] = lambda count: None) -> ExportedFiles:
    """Write one run as :func:`export_parquet_dataset` does, under the name of its directory.

    Arguments, result and errors as there.
    """
    run_dir = os.path.abspath(run_dir)
    return export_parquet_dataset([run_dir], os.path.dirname(run_dir), out_dir, progress)


def export_parquet_dataset(
    run_dirs: Sequence[str], root: str, out_dir: str, progress: Callable[[int], object] = lambda count: None
) -> ExportedFiles:
    """Write ``scalars``, ``histograms`` and ``histogram_samples``, and ``lineage.parquet`` with a row per run.

    Each of the three is a folder with ``<run>/part-0.parquet`` for every run that has rows, the run's name
    percent-encoded. The columns are those of the CSV files after ``run``, a text, also where the name is a number:
    ``tag``, ``step``, ``wall_time`` (seconds), and ``value`` (float32); ``left``, ``width`` and ``count`` of a bucket;
    and the counts of a sample. ``lineage.parquet`` has ``run`` and a column per value that any run recorded; a column
    of several types is text, and of columns that differ only in case the later get a number.

    Args:
        run_dirs: the runs. One that is damaged is skipped, unless all are.
        root: the directory that their names are relative to; it itself has the name of the directory.
        out_dir: where the files go; created if needed. Those of an earlier export to Parquet are replaced.
        progress: called with 1 for each run.

    Returns:
        Paths of the files.

    Raises:
        DamagedFileError: every run is damaged.
        FileExistsError: a file that no earlier export wrote is where this one writes.
        ImportError: pyarrow is missing.
        OSError: a file cannot be written.
        RemotePathError: ``out_dir`` is not local.
    """
    pyarrow, write_table = _import_pyarrow()
    refuse_remote("out_dir", out_dir)
    names = {run_dir: os.path.relpath(run_dir, root) for run_dir in run_dirs}
    itself = os.path.basename(os.path.abspath(root))
    names = {run: itself if name == "." and itself not in names.values() else name for run, name in names.items()}
    folders = distinct_names(names.values(), hidden="._")  # Arrow and Spark skip these
    territory = {"": r"lineage\.parquet", **dict.fromkeys(_TABLES, ".*")}
    exported, rows = ExportedFiles([]), []
    with OutputDirectory(out_dir, "parquet", territory, mode_of_runs(run_dirs)) as out:

        def save(name: str, columns: Mapping[str, Any]) -> None:
            with out.file(name) as file:
                write_table(pyarrow.table(columns), file)

        for run_dir, name in names.items():
            reader = SummaryReader(run_dir)
            try:
                tables = {"scalars": _scalar_columns(reader), **_histogram_columns(reader)}
                rows.append({"run": name, **_renamed_run(lineage_values(reader.lineage()))})
                exported.skip(reader, "image", "tensor", "loss_landscape", "graph")
            except DamagedFileError as error:
                exported.damaged[name] = str(error)
                if len(exported.damaged) == len(names):
                    raise
                continue
            for table, columns in tables.items():
                if len(columns["step"]):
                    tags, codes = columns.pop("tag")
                    runs = pyarrow.array([name], pyarrow.string()).take(np.zeros(len(codes), np.int64))
                    tag = pyarrow.array(tags, pyarrow.string()).take(pyarrow.array(codes))
                    save(f"{table}/{folders[name]}/part-0.parquet", {"run": runs, "tag": tag, **columns})
            progress(1)
        recorded = dict.fromkeys(column for row in rows for column in row)
        columns = {column: _one_type([row.get(column) for row in rows]) for column in recorded}
        labels = _labels_apart_in_any_case(columns)
        exported.renamed = {column: label for column, label in labels.items() if column != label}
        save("lineage.parquet", {label: columns[column] for column, label in labels.items()})
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
        raise ImportError("Parquet needs pyarrow: pip install pyarrow") from error
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


def _histogram_columns(reader: SummaryReader) -> dict[str, dict[str, Any]]:
    """The buckets of a run's histograms, and their samples, as columns."""
    tags = reader.tags()["histogram"]
    code_of = {tag: code for code, tag in enumerate(tags)}
    samples = list(samples_of(reader))
    codes = np.array([code_of[tag] for tag, *_ in samples], np.int64)
    steps = np.array([step for _, step, _, _ in samples], np.int64)
    wall_times = np.array([wall_time for _, _, wall_time, _ in samples], np.float64)
    histograms = [histogram for *_, histogram in samples]
    sizes = [histogram.counts.size for histogram in histograms]
    buckets = {"tag": (tags, np.repeat(codes, sizes)), "step": np.repeat(steps, sizes)}
    buckets["wall_time"] = np.repeat(wall_times, sizes)
    for column, field, dtype in (("left", "lefts", float), ("width", "widths", float), ("count", "counts", np.int64)):
        buckets[column] = np.concatenate([np.empty(0, dtype), *(getattr(one, field) for one in histograms)])
    counts = {field: np.array([getattr(one, field) for one in histograms], np.int64) for field in SAMPLE_FIELDS[:4]}
    extremes = {field: _doubles([getattr(one, field) for one in histograms]) for field in SAMPLE_FIELDS[4:]}
    return {
        "histograms": buckets,
        "histogram_samples": {"tag": (tags, codes), "step": steps, "wall_time": wall_times, **counts, **extremes},
    }


def _doubles(cells: list[float | None]) -> Any:
    import pyarrow

    return pyarrow.array(cells, pyarrow.float64())  # where all are None too


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


def _labels_apart_in_any_case(columns: Mapping[str, Any]) -> dict[str, str]:
    """Names of columns as DuckDB and Spark, which ignore case, tell them apart."""
    labels: dict[str, str] = {}
    taken = {column.casefold() for column in columns}
    first: set[str] = set()
    for column in columns:
        label, number = column, 1
        while column.casefold() in first and label.casefold() in taken:
            number += 1
            label = f"{column}_{number}"
        first.add(column.casefold())
        taken.add(label.casefold())
        labels[column] = label
    return labels
