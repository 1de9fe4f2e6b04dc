"""Write converted files to a directory, so that all files appear together.

The directory must be empty, or hold only the files of an earlier conversion.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import IO

from mindsummary_lightning.fileio.regular import files_below, read_regular
from mindsummary_lightning.fileio.replace import (
    remove_stale_temporaries,
    replace_file,
    temporary_name,
)
from mindsummary_lightning.reading.lineage_text import RunLineage
from mindsummary_lightning.reading.parameter_tables import read_parameter_table
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
from mindsummary_lightning.reading.summary_reader import SummaryReader, table_of
from mindsummary_lightning.values.addresses import without_local_scheme
from mindsummary_lightning.values.statistics_columns import STATISTICS_TAG

_LIST = ".mindsummary-export"


class OutputDirectory:
    """Context manager that writes files to a directory, so that they appear together.

    They appear at the end of the block. After an error in the block, no file appears.

    Until then the files are in a hidden directory inside the output directory, which may be a mount
    point or the current directory. A hidden file lists the names of the files, so that a later
    conversion can recognise them.

    Args:
        path: the output directory; created if needed.
        mode: permission bits of the files.
        force: whether to replace the files of an earlier conversion.

    Attributes:
        files: paths of the files that were written by :meth:`file`.
        unfinished: path of the hidden directory, inside the block.
    """

    def __init__(self, path: str, mode: int = 0o600, *, force: bool = False) -> None:
        self.files: list[str] = []
        self.unfinished: str = ""
        self._path = path = without_local_scheme(path)
        self._mode = mode
        self._force = force
        self._is_new = not os.path.exists(path)

    def __enter__(self) -> OutputDirectory:
        """Create the output directory; refuse a directory that contains files.

        With ``force``, only files that no earlier conversion wrote are refused.

        Raises:
            NotADirectoryError: the path is a file.
            FileExistsError: the directory contains files that may not be replaced.
        """
        if os.path.isfile(self._path):
            raise NotADirectoryError(
                f"--out must be a new or empty directory, got the file {self._path}"
            )
        remove_stale_temporaries(self._path)
        found = files_below(self._path).keys()
        if found and not self._force:
            advice = (
                "Choose a new or empty directory. To replace the files of an earlier call, give "
                "--force"
            )
            raise FileExistsError(
                f"--out {self._path} is not empty (it contains {min(found)}). {advice}"
            )
        others = found - _listed(self._path)
        if others:
            other = os.path.join(self._path, min(others))
            raise FileExistsError(
                f"--force replaces only files that an earlier call wrote, but {other} is "
                "another file. Choose another --out"
            )
        os.makedirs(self._path, exist_ok=True)
        # Two levels down in a hidden directory neither MindInsight nor this package takes what is
        # there for a run.
        self.unfinished = os.path.join(temporary_name(self._path), "files")
        os.makedirs(self.unfinished, 0o700)
        return self

    def __exit__(self, error: object, *_: object) -> None:
        hidden = os.path.dirname(self.unfinished)
        try:
            if error is None:
                self._publish()
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
            if error is not None and self._is_new:
                with contextlib.suppress(OSError):
                    os.rmdir(self._path)

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[IO[bytes]]:
        """Open a new file in the output directory; delete it if the ``with`` block fails.

        ``name`` may contain folders, separated by ``/``.

        Raises:
            FileExistsError: the file exists, perhaps under a name that differs only in case.
        """
        path = os.path.join(self.unfinished, *name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            raise FileExistsError(
                f"two values would be written to the same file {name}, because this file system "
                "does not distinguish upper and lower case"
            )
        with open(path, "xb") as file:
            try:
                yield file
            except BaseException:
                os.unlink(path)
                raise
        os.chmod(path, self._mode)
        self.files.append(os.path.join(self._path, *name.split("/")))

    def _publish(self) -> None:
        names = sorted(files_below(self.unfinished))
        for entry in os.scandir(self._path):
            if entry.path != os.path.dirname(self.unfinished):
                shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
        if names:  # the list first: a call that is killed in between must be known too
            replace_file(os.path.join(self._path, _LIST), json.dumps(names).encode(), self._mode)
        for name in os.listdir(self.unfinished):
            os.rename(os.path.join(self.unfinished, name), os.path.join(self._path, name))


class ExportedFiles(list[str]):
    """Paths of the files of an export, with counts of exported and skipped values.

    Attributes:
        written: number of samples by kind, for formats that count them.
        skipped: number of tags that the format cannot hold, by kind; 1 for a graph and for
            lineage.
        changed: number of samples that differ in the export, by a text about the difference.
        damaged: why runs were skipped, by run.
    """

    def __init__(self, paths: Iterable[str] = ()) -> None:
        super().__init__(paths)
        self.written: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.changed: Counter[str] = Counter()
        self.damaged: dict[str, str] = {}

    def skip(self, reader: SummaryReader, *kinds: str) -> None:
        """Count the tags of the given kinds as skipped: the format cannot hold them.

        A table of parameter statistics does not count, because the export has it as ``parameters``.
        """
        numbers = {kind: len(tags) for kind, tags in reader.tags().items()}
        has_table = "tensor" in kinds and STATISTICS_TAG in reader.tags()["tensor"]
        if has_table and read_parameter_table(table_of(reader)) is not None:
            numbers["tensor"] -= 1
        numbers["graph"] = int(reader.graph() is not None)
        numbers["lineage"] = int(reader.lineage() != RunLineage())
        for kind in kinds:
            if numbers[kind]:
                self.skipped[kind] += numbers[kind]


def mode_of_runs(run_dirs: Iterable[str]) -> int:
    """Return the permission bits that all summary and lineage files of runs share.

    The owner may always read and write; execution is left out. The result is 0o600 without files.
    """
    modes = []
    for run_dir in run_dirs:
        # of a run that cannot be looked into nothing is exported
        with contextlib.suppress(OSError):
            for path in summary_files(run_dir) + lineage_file_paths(run_dir):
                modes.append(os.stat(path).st_mode)
    common = 0o666 if modes else 0o600
    for mode in modes:
        common &= mode
    # MindSpore makes its finished files read-only; an export belongs to the user who made it
    return common | 0o600


def _listed(directory: str) -> set[str]:
    """Return the names of the files that an earlier conversion wrote to a directory."""
    try:
        return {_LIST, *map(str, json.loads(read_regular(os.path.join(directory, _LIST))))}
    except (OSError, ValueError, TypeError, RecursionError):  # there is none, or not one of ours
        return set()
