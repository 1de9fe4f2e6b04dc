"""The types that ``SummaryReader`` returns: samples, and series of scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import imported

if TYPE_CHECKING:
    import pandas

_T = TypeVar("_T")


def html_table(rows: Mapping[str, str]) -> str:
    """Format names and texts as an HTML table for a notebook.

    They are left-aligned; JupyterLab's default is right.
    """
    cell = '<td style="text-align: left">{}</td>'.format
    cells = []
    for name, text in rows.items():
        cells.append(f"<tr>{cell(escape(name))}{cell(escape(text))}</tr>")
    return f"<table>{''.join(cells)}</table>"


class Sample(tuple[int, float, _T]):
    """A recorded value of a tag: the tuple ``(step, wall_time, value)``.

    Wall times are seconds since the epoch.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        times = f"step={self.step}, wall_time={self.wall_time}"
        return f"{type(self).__name__}({times}, value={self.value!r})"

    @property
    def step(self) -> int:
        """Return the step at which the sample was recorded."""
        return self[0]

    @property
    def wall_time(self) -> float:
        """Return the time of recording, in seconds since 1970."""
        return self[1]

    @property
    def value(self) -> _T:
        """Return the recorded value."""
        return self[2]


@dataclass(frozen=True, slots=True, eq=False)
class ScalarSeries:
    """The samples of a scalar at all steps of a run, as arrays.

    Attributes:
        steps: ascending, no step twice; int64, shape ``(n,)``.
        wall_times: seconds since the epoch, float64, shape ``(n,)``.
        values: float32, shape ``(n,)``; NaN and infinities as recorded.
    """

    steps: NDArray[np.int64]
    wall_times: NDArray[np.float64]
    values: NDArray[np.float32]

    def __post_init__(self) -> None:
        for array in (self.steps, self.wall_times, self.values):
            array.setflags(write=False)

    def __len__(self) -> int:
        return int(self.steps.size)

    def __repr__(self) -> str:
        samples = f"{len(self)} samples"
        if len(self):
            samples += f", steps {self.steps[0]} to {self.steps[-1]}, last {self.values[-1]:.6g}"
        return f"{type(self).__name__}({samples})"


def scalar_table(
    names: Mapping[str, Sequence[str]], found: Sequence[ScalarSeries]
) -> pandas.DataFrame:
    """Make a table of scalars, with one row per sample.

    It has a categorical column for each of ``names``, which names every series, then step, wall
    time and value.

    Raises:
        ImportError: pandas is not installed.
    """
    pandas = imported("pandas", "a table of scalars")
    lengths = [len(series) for series in found]
    columns: dict[str, Any] = {}
    for column, labels in names.items():
        codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
        rows = np.repeat(np.array([codes[label] for label in labels], np.intp), lengths)
        columns[column] = pandas.Categorical.from_codes(rows, categories=list(codes))
    for column, field, dtype in (
        ("step", "steps", np.int64),
        ("wall_time", "wall_times", np.float64),
        ("value", "values", np.float32),
    ):
        columns[column] = np.concatenate(
            [np.empty(0, dtype), *(getattr(series, field) for series in found)]
        )
    return pandas.DataFrame(columns)
