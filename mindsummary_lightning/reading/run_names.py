"""Gives a run the same name in every table, export and function.

Rows of different tables can therefore be joined by it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from mindsummary_lightning.values.text import utf8_text

_ITSELF = "./"  # MindInsight's name of a run that is the base directory itself


class RunPath(str):
    """The path of a run that was found in a directory, with the run's name.

    Attributes:
        run: the run's name, as in every table.
    """

    __slots__ = ("run",)
    run: str

    def __new__(cls, path: str, run: str) -> RunPath:
        """Make the path from its text and the run's name."""
        found = super().__new__(cls, path)
        found.run = run
        return found

    def __reduce__(self) -> tuple[type[RunPath], tuple[str, str]]:  # to a process of workers
        return type(self), (str(self), self.run)


def run_names(paths: Iterable[str], base: str) -> dict[str, str]:
    """Return the name of each run, by the run's path.

    A name is the path below ``base`` with ``/`` between its parts. A run that is ``base`` itself
    has the name of that directory, or ``.`` if another run has this name.
    """
    relative = {path: os.path.relpath(path, base).replace(os.sep, "/") for path in paths}
    ids = [_ITSELF if below == "." else f"./{below}" for below in relative.values()]
    return dict(zip(relative, names_of_ids(ids, base), strict=True))


def names_of_ids(train_ids: Sequence[str], base: str) -> list[str]:
    """Convert MindInsight's train ids (``./`` and a path) to names of runs.

    See :func:`run_names`.
    """
    own_name = f"./{os.path.basename(os.path.abspath(base))}"
    itself = "." if own_name == _ITSELF or own_name in train_ids else own_name.removeprefix("./")
    names = []
    for train_id in train_ids:
        name = itself if train_id == _ITSELF else train_id.removeprefix("./")
        names.append(utf8_text(name))
    return names
