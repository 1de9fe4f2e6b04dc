"""``OutputDirectory``: where converted files go. What an earlier conversion left is replaced, what is not ours refused.

A hidden file in the directory lists the files that were written there, so that a second export neither doubles what
the first one left nor leaves any of it beside the new files.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

from mindsummary_lightning.fileio.replace import remove_stale_temporaries, replace_file, replacement
from mindsummary_lightning.reading.run_directory import lineage_file_paths, summary_files
from mindsummary_lightning.reading.series import RunLineage
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.recording.npy_export import quoted_name

_LIST = ".mindsummary-export"
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(?![^.])", re.IGNORECASE)


class OutputDirectory:
    """The files of one conversion; a context manager. Each file appears under its name when it is complete.

    At the start, what a killed conversion left unfinished is removed, and a file that somebody else put where this one
    writes is refused. At the end, files of an earlier conversion to the same form that were not written again are
    removed; if the block ends with an error, they stay.

    Args:
        path: the directory; created if needed.
        form: what is written, such as ``csv``; files of other forms are left alone.
        territory: pattern of the names that belong to the form, by folder; ``""`` is the directory itself.
        mode: permission bits of the files.

    Attributes:
        path: the directory.
        files: paths of the files written so far.
    """

    def __init__(self, path: str, form: str, territory: Mapping[str, str], mode: int = 0o600) -> None:
        self.path = path
        self.files: list[str] = []
        self._form = form
        self._territory = territory
        self._mode = mode
        self._earlier: set[str] = set()
        self._names: dict[str, None] = {}

    def __enter__(self) -> OutputDirectory:
        self.check()
        os.makedirs(self.path, exist_ok=True)
        for folder in {*self._territory, *(name.rpartition("/")[0] for name in self._earlier)}:
            remove_stale_temporaries(self._path_of(folder))
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:
            return
        for name in self._earlier - self._names.keys():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path_of(name))
            while name := name.rpartition("/")[0]:
                with contextlib.suppress(OSError):  # it is not empty
                    os.rmdir(self._path_of(name))
        listed = [pair for pair in _listed(self.path) if pair[0] != self._form]
        listed += [(self._form, name) for name in self._names]
        if listed:
            replace_file(os.path.join(self.path, _LIST), "".join(map(_line, listed)).encode(), self._mode)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.path, _LIST))

    def check(self) -> None:
        """Refuse what is not ours.

        Raises:
            FileExistsError: a file of another origin is where this conversion writes.
        """
        self._earlier = {name for form, name in _listed(self.path) if form == self._form and self._is_inside(name)}
        for folder, pattern in self._territory.items():
            inside = self._path_of(folder)
            for name in sorted(os.listdir(inside)) if os.path.isdir(inside) else ():
                whole = f"{folder}/{name}" if folder else name
                is_ours = whole in self._earlier or any(one.startswith(f"{whole}/") for one in self._earlier)
                is_claimed = re.fullmatch(pattern, name) and not name.startswith(".")
                if is_claimed and not is_ours and (folder or os.path.isfile(os.path.join(inside, name))):
                    raise FileExistsError(
                        f"{os.path.join(inside, name)} was there before and is not of an earlier call with the same "
                        f"source and format, so it is not replaced; give an --out that is new or empty"
                    )

    @contextlib.contextmanager
    def file(self, name: str) -> Iterator[IO[bytes]]:
        """A file to write to; ``name`` may contain folders, parted by ``/``."""
        path = self._path_of(name)
        self._add([name])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with replacement(path, self._mode) as file:
            yield file
        self.files.append(path)

    def move_in(self, directory: str) -> None:
        """Move all files of a directory here; by one rename if this directory is empty or not there yet."""
        names = sorted(os.listdir(directory))
        if not self._earlier:
            replace_file(os.path.join(directory, _LIST), "".join(_line((self._form, n)) for n in names).encode())
            with contextlib.suppress(OSError):
                os.rename(directory, self.path)
                self._names.update(dict.fromkeys(names))
                return
        self._add(names)
        for name in names:
            os.replace(os.path.join(directory, name), self._path_of(name))

    def _add(self, names: Iterable[str]) -> None:
        self._names.update(dict.fromkeys(names))
        new = [name for name in names if name not in self._earlier]
        if new:  # before the file appears: a killed call must know its own files again
            path = os.path.join(self.path, _LIST)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, self._mode), "ab") as file:
                file.write("".join(_line((self._form, name)) for name in new).encode())

    def _is_inside(self, name: str) -> bool:
        """Whether a listed name is one that this class wrote; the list may be anybody's."""
        *folders, last = name.split("/")
        pattern = self._territory.get(folders[0] if folders else "")
        inside = [*folders[1:], last]
        return pattern is not None and re.fullmatch(pattern, inside[0]) is not None and not {"", ".."} & {*inside}

    def _path_of(self, name: str) -> str:
        return os.path.join(self.path, *name.split("/"))


class ExportedFiles(list[str]):
    """Paths of the files of an export, and what is not in them.

    Attributes:
        skipped: number of tags of each kind that the format does not hold; 1 for a graph and for lineage.
        renamed: columns by the name that they would have had.
        damaged: what is wrong with a run that was skipped, by the run.
    """

    def __init__(self, paths: list[str]) -> None:
        super().__init__(paths)
        self.skipped: dict[str, int] = {}
        self.renamed: dict[str, str] = {}
        self.damaged: dict[str, str] = {}

    def skip(self, reader: SummaryReader, *kinds: str) -> None:
        """Count what a run has of some kinds."""
        numbers = {kind: len(tags) for kind, tags in reader.tags().items()}
        numbers["graph"] = int(reader.graph() is not None)
        numbers["lineage"] = int(reader.lineage() != RunLineage())
        for kind in kinds:
            if numbers[kind]:
                self.skipped[kind] = self.skipped.get(kind, 0) + numbers[kind]


def mode_of_runs(run_dirs: Iterable[str]) -> int:
    """The permission bits, without execution, that all event files of some runs have; 0o600 if there are none."""
    modes = []
    for run_dir in run_dirs:
        with contextlib.suppress(OSError):  # of a run that cannot be looked into nothing is exported
            modes += [os.stat(path).st_mode for path in summary_files(run_dir) + lineage_file_paths(run_dir)]
    common = 0o666 if modes else 0o600
    for mode in modes:
        common &= mode
    return common | 0o600  # MindSpore makes its finished files read-only; an export belongs to whoever made it


def distinct_names(texts: Iterable[str], hidden: str = "") -> dict[str, str]:
    """Percent-quoted names by text: each its own on file systems that ignore case, and none a device on Windows.

    None begins with a character of ``hidden``, by which some programs skip files.
    """
    names = {text: quoted_name(text) for text in texts}
    alike = Counter(name.casefold() for name in names.values())
    names = {text: quoted_name(text, with_hash=alike[name.casefold()] > 1) for text, name in names.items()}
    unsafe = {text for text, name in names.items() if is_reserved(name) or name[0] in hidden}
    return {text: f"%{ord(name[0]):02X}{name[1:]}" if text in unsafe else name for text, name in names.items()}


def is_reserved(name: str) -> bool:
    """Whether a name is a device on Windows, such as ``nul`` or ``con.txt``."""
    return _DEVICES.match(name) is not None


def _listed(directory: str) -> list[tuple[str, str]]:
    """Form and name of each file that conversions wrote into a directory."""
    pairs = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), open(os.path.join(directory, _LIST), "rb") as file:
        for line in file:
            with contextlib.suppress(ValueError, TypeError, RecursionError):  # half a line of a killed call
                form, name = json.loads(line)
                pairs.append((str(form), str(name)))
    return pairs


def _line(pair: tuple[str, str]) -> str:
    return json.dumps(pair) + "\n"
