"""Many runs as one Parquet data set, partitioned by run, as DuckDB, Spark and Ray read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from mindsummary_lightning.conversion.arguments import refuse_remote
from mindsummary_lightning.export.lineage_text import lineage_values
from mindsummary_lightning.export.tables import import_pandas, mode_of_runs
from mindsummary_lightning.fileio.replace import replace_file
from mindsummary_lightning.reading.summary_reader import SummaryReader


def export_parquet_dataset(
    run_dirs: Sequence[str], root: str, out_dir: str, progress: Callable[[int], object] = lambda count: None
) -> list[str]:
    """Write ``scalars/run=<name>/part-0.parquet`` for each run, and ``lineage.parquet`` with a row per run.

    Columns of the scalars are ``tag``, ``step``, ``wall_time`` (seconds) and ``value`` (float32); ``run`` comes from
    the folder's name (Hive style, percent-encoded). ``lineage.parquet`` has ``run`` and a column per value that any run
    recorded; a column of several types is text.

    Args:
        run_dirs: the runs.
        root: the directory that their names are relative to.
        out_dir: where the files go; created if needed.
        progress: called with 1 for each run.

    Returns:
        Paths of the files.

    Raises:
        DamagedFileError: a file of a run is damaged.
        ImportError: pandas or pyarrow is missing.
        OSError: a file cannot be written.
        RemotePathError: ``out_dir`` is not local.
    """
    pandas = import_pandas()
    refuse_remote("out_dir", out_dir)
    mode = mode_of_runs(run_dirs)
    written, rows = [], []
    for run_dir in run_dirs:
        reader, name = SummaryReader(run_dir), os.path.relpath(run_dir, root)
        rows.append({"run": name, **lineage_values(reader.lineage())})
        scalars = reader.to_pandas()
        if len(scalars):
            folder = os.path.join(out_dir, "scalars", f"run={quote(name, safe='')}")
            os.makedirs(folder, exist_ok=True)
            written.append(os.path.join(folder, "part-0.parquet"))
            scalars["tag"] = scalars["tag"].astype("string")  # tags differ from run to run
            replace_file(written[-1], scalars.to_parquet(index=False), mode)
        progress(1)
    os.makedirs(out_dir, exist_ok=True)
    columns = dict.fromkeys(column for row in rows for column in row)
    lineage = pandas.DataFrame({column: _one_type([row.get(column) for row in rows]) for column in columns})
    written.append(os.path.join(out_dir, "lineage.parquet"))
    replace_file(written[-1], lineage.to_parquet(index=False), mode)
    return written


def _one_type(cells: list[Any]) -> list[Any]:
    """The cells as they are if they are numbers, booleans or texts only, else all as text."""
    kinds = {float if type(cell) is int else type(cell) for cell in cells if cell is not None}
    if len(kinds) <= 1 and kinds <= {float, bool, str}:
        return cells
    return [None if cell is None else str(cell) for cell in cells]
