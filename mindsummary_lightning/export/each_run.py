"""Export several runs with the same export function, a directory per run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from mindsummary_lightning.conversion.arguments import refuse_remote
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.export.output_directory import (
    ExportedFiles,
    OutputDirectory,
    mode_of_runs,
)
from mindsummary_lightning.values.addresses import without_local_scheme


def export_each(
    export: Callable[..., ExportedFiles],
    run_dirs: Sequence[str],
    root: str,
    out_dir: str,
    progress: Callable[[int], object] = lambda count: None,
    *,
    force: bool = False,
) -> ExportedFiles:
    """Export several runs to ``out_dir/<name of the run>``.

    The name of a run is its path relative to ``root``. All subdirectories appear together.

    Args:
        export: the function that exports a run, such as ``export_csv`` or ``export_tensorboard``.
        run_dirs: the runs; a run comes before the runs in its subdirectories. A run that is damaged
            or cannot be read is skipped, unless this is so for every run.
        root: the directory that the runs' names are relative to.
        out_dir: the output directory, which must be new or empty.
        progress: called with numbers of bytes of the runs' files, as they are exported.
        force: replace the files of an earlier export in ``out_dir``.

    Returns:
        Paths of the files, and the counts of all runs together.

    Raises:
        DamagedFileError: every run is damaged.
        FileExistsError: ``out_dir`` is not empty, or holds files that no earlier export wrote.
        ImportError: a package that ``export`` needs is missing.
        OSError: a file cannot be written, or no run can be read.
        RemotePathError: ``out_dir`` is not local.
    """
    refuse_remote("out_dir", out_dir)
    out_dir = without_local_scheme(out_dir)
    exported = ExportedFiles()
    with OutputDirectory(out_dir, mode_of_runs(run_dirs), force=force) as out:
        for run_dir in run_dirs:
            name = os.path.relpath(run_dir, root)
            try:
                found = export(run_dir, os.path.join(out.unfinished, name), progress)
            except (DamagedFileError, OSError) as error:
                exported.damaged[name] = str(error)
                if len(exported.damaged) == len(run_dirs):
                    raise
                continue
            for path in found:
                exported.append(os.path.join(out_dir, os.path.relpath(path, out.unfinished)))
            _add_counts(exported, found)
    return exported


def _add_counts(total: ExportedFiles, run: ExportedFiles) -> None:
    total.written.update(run.written)
    total.skipped.update(run.skipped)
    total.changed.update(run.changed)
