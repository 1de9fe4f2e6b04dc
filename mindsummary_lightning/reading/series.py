"""Samples and series of scalars, as ``SummaryReader`` returns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.errors import imported
from mindsummary_lightning.reading.lineage_text import lineage_fields
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    LandscapeMetadata,
    Points,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.values.summary_values import surface_text

if TYPE_CHECKING:
    import pandas

_T = TypeVar("_T")


def html_table(rows: Mapping[str, str]) -> str:
    """Names and texts as a notebook shows them.

    They are on the left, where JupyterLab would have them on the right.
    """
    cell = '<td style="text-align: left">{}</td>'.format
    cells = []
    for name, text in rows.items():
        cells.append(f"<tr>{cell(escape(name))}{cell(escape(text))}</tr>")
    return f"<table>{''.join(cells)}</table>"


class Sample(tuple[int, float, _T]):
    """A value of a tag: ``step``, ``wall_time`` and ``value``, in this order.

    Wall times are seconds since the epoch.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        times = f"step={self.step}, wall_time={self.wall_time}"
        return f"{type(self).__name__}({times}, value={self.value!r})"

    @property
    def step(self) -> int:
        """The step it was recorded at."""
        return self[0]

    @property
    def wall_time(self) -> float:
        """Seconds since the epoch."""
        return self[1]

    @property
    def value(self) -> _T:
        """The recorded value."""
        return self[2]


@dataclass(frozen=True, slots=True, eq=False)
class ScalarSeries:
    """A scalar over the steps of a run.

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


@dataclass(frozen=True, slots=True)
class RunLineage:
    """Newest lineage of each kind in a run; ``None`` for what was not recorded.

    Attributes:
        train: how the model was trained.
        evaluation: its metrics and evaluation data.
        dataset: the data pipeline.
        custom: everything the user added, and what a run notes of itself without MindInsight
            showing it (versions, precision, how it ended); of entries with one name the later one,
            but the user's before the run's.
    """

    train: TrainInfo | None = None
    evaluation: EvaluationInfo | None = None
    dataset: DatasetGraph | None = None
    custom: UserDefinedInfo | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(name for name in self.__slots__ if getattr(self, name))})"

    def __str__(self) -> str:
        fields = lineage_fields(self)
        return "\n".join(f"{name:{max(map(len, fields))}}  {text}" for name, text in fields.items())

    def _repr_html_(self) -> str:
        return html_table(lineage_fields(self))


@dataclass(frozen=True, slots=True, eq=False)
class RecordedLandscape:
    """A loss landscape of a run.

    Attributes:
        tag: its tag, ``landscape_[first, last]`` or ``landscape_[last]`` from MindSpore and this
            package.
        step: the step it was recorded at.
        wall_time: seconds since the epoch.
        x: float32, shape ``(n,)``.
        y: float32, shape ``(m,)``.
        z: loss at ``(x[j], y[i])`` in ``z[i, j]``, float32, shape ``(m, n)``.
        intervals: steps or epochs of the path's points; empty for a final landscape.
        path: the path's points, or ``None``.
        convergence_point: ``(x, y, loss)`` at the end of the training, or ``None``.
        metadata: how it was computed.
    """

    tag: str
    step: int
    wall_time: float
    x: NDArray[np.float32]
    y: NDArray[np.float32]
    z: NDArray[np.float32]
    intervals: tuple[int, ...]
    path: Points | None
    convergence_point: tuple[float, float, float] | None
    metadata: LandscapeMetadata

    @property
    def surface(self) -> Points:
        """``x``, ``y`` and ``z`` together, as a landscape that was computed has them."""
        return Points(self.x, self.y, self.z)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.tag!r}, step {self.step}, {surface_text(self.surface, self.intervals)})"

    def _repr_png_(self) -> bytes | None:
        # here: it imports this module
        from mindsummary_lightning.reading.landscape_plot import picture_of

        return picture_of([self])


def scalar_table(
    names: Mapping[str, Sequence[str]], found: Sequence[ScalarSeries]
) -> pandas.DataFrame:
    """A row per sample: a categorical column for each of ``names``, which names every series, then step, time, value.

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
