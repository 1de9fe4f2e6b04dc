"""Collects statistics of parameters, their gradients and their updates.

They are computed from gradients and weights, and become values of a step.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mindsummary_lightning.collection.gradients import as_exact
from mindsummary_lightning.collection.parameter_selection import NamedParameter
from mindsummary_lightning.collection.row_statistics import RowPlan, RowStatistics, TensorStatistics
from mindsummary_lightning.collection.schedule import Schedule
from mindsummary_lightning.collection.step_values import StepValues
from mindsummary_lightning.conversion.heat_map import heat_map
from mindsummary_lightning.conversion.step_history import StepHistory
from mindsummary_lightning.values import SummaryValue, Tensor
from mindsummary_lightning.values.statistics_columns import (
    COLUMNS,
    LARGEST_TAG,
    NON_FINITE_TAG,
    PICTURE_TAG,
    STATISTICS_TAG,
    origin,
    to_stored,
)

_LOG = logging.getLogger(__name__)

_FIELDS = {  # of each column the tensor that it is taken of, and the field of its TensorStatistics
    **{f"gradient_{name}": ("gradient", name) for name in ("rms", "mean", "zeros", "non_finite")},
    "gradient_max": ("gradient", "largest"),
    **{f"weight_{name}": ("weight", name) for name in ("rms", "non_finite")},
    "weight_max": ("weight", "largest"),
    "update_ratio": ("update", "rms"),
    "elements": ("weight", "elements"),
}
_WANTED = {
    kind: {name for of, name in _FIELDS.values() if of == kind}
    for kind in ("gradient", "weight", "update")
}
_Pairs = list[tuple[str, SummaryValue]]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsPart:
    """Statistics of some parameters, and the table rows that they belong to.

    ``kind`` tells whether they are of gradients, weights or updates.
    """

    kind: str
    rows: NDArray[np.intp]
    statistics: TensorStatistics


class _Together(NamedTuple):
    """Parameters whose statistics are computed together.

    It has their rows, and how their tensors are reduced.
    """

    named: Sequence[NamedParameter]
    rows: NDArray[np.intp]
    plan: RowPlan


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


class ParameterStatistics:
    """Collects statistics of the selected parameters at every collected step.

    It makes tables, scalars and pictures of them.

    ``names`` are those of the rows, in order: the parameters that an earlier fit into the run had,
    to which new ones are added and of which none is removed. ``has_updates`` keeps a copy of the
    weights during a collected step. ``skips_overflow``: a scaled loss makes some gradients
    infinite, and their steps are skipped.
    """

    def __init__(
        self, names: Sequence[str], schedule: Schedule, has_updates: bool, skips_overflow: bool
    ) -> None:
        self.names: list[str] = [*names]
        self._rows = {name: row for row, name in enumerate(self.names)}
        self._schedule = schedule
        self._has_updates = has_updates
        self._skips_overflow = skips_overflow
        self._gradients: dict[int, StepValues] = {}  # of each optimizer's last step in this batch
        self._before: list[tuple[_Together, list[torch.Tensor]]] = []  # the weights before the step
        self._copied: set[int] = set()  # ids of their parameters
        # of the last step, by kind and optimizer
        self._together: dict[tuple[str, int | None], _Together] = {}
        self._held: dict[
            int, tuple[Sequence[NamedParameter], Sequence[nn.Parameter], Sequence[NamedParameter]]
        ] = {}
        self._history = StepHistory()
        self._has_warned = False
        self._unwritten: dict[str, Callable[[], SummaryValue]] = {}  # of the last step

    def clear(self) -> None:
        """Discard the values of an unfinished step."""
        self._gradients, self._before, self._copied = {}, [], set()

    def release(self) -> None:
        """Drop all references to parameters at the end of a fit."""
        self.clear()
        self._together, self._held = {}, {}

    def take_gradients(
        self,
        optimizer: int,
        parameters: Sequence[nn.Parameter],
        selected: Sequence[NamedParameter],
        scale: torch.Tensor | None,
    ) -> None:
        """Collect the statistics of an optimizer's gradients.

        They replace the statistics of the optimizer's earlier steps in this batch.

        As :meth:`GradientCollector.take`.
        """
        own = self._held_by(optimizer, parameters, selected)
        values = self._gradients[optimizer] = StepValues()
        with _noting(values, "gradients"):
            gradients = [each.parameter.grad for each in own]  # once: a new object each time
            has_gradient = [gradient is not None for gradient in gradients]
            named = own if all(has_gradient) else [*itertools.compress(own, has_gradient)]
            gradients = [*itertools.compress(gradients, has_gradient)]
            together, parts = self._planned(
                "gradient", optimizer, named, gradients, RowPlan.statistics
            )
            _add(values, "gradient", together, parts, scale)
        if self._has_updates:
            with _noting(values, "updates"):
                named = (
                    [each for each in own if id(each.parameter) not in self._copied]
                    if self._copied
                    else own
                )
                self._before.append(
                    self._planned("update", optimizer, named, _weights(named), RowPlan.copies)
                )
                self._copied |= {id(each.parameter) for each in named}

    def move_into(self, values: StepValues, selected: Sequence[NamedParameter]) -> None:
        """Move the statistics of gradients and weights into this step's values."""
        gradients, before, copied = [*self._gradients.values()], self._before, self._copied
        self.clear()
        for of_optimizer in gradients:
            values.extend(of_optimizer)
        wanted = _WANTED["weight"], _WANTED["update"]
        for together, copies in before:
            with _noting(values, "weights and updates"):
                blocks = together.plan.blocks(_weights(together.named))
                pairs = (
                    (after, _difference(copy, after))
                    for copy, after in zip(copies, blocks, strict=True)
                )
                of_weights, of_updates = together.plan.reduced(pairs, *wanted)
                _add(values, "weight", together, of_weights)
                _add(values, "update", together, of_updates)
        others = selected
        if copied:
            others = [named for named in selected if id(named.parameter) not in copied]
        with _noting(values, "weights"):
            reduce = partial(RowPlan.statistics, wanted=_WANTED["weight"])
            together, parts = self._planned("weight", None, others, _weights(others), reduce)
            _add(values, "weight", together, parts)

    def finish(self, step: int, values: Sequence[tuple[str, Any]]) -> _Pairs:
        """Return the values of a step, with its statistics as table, image and scalars."""
        parts = [value for _, value in values if isinstance(value, StatisticsPart)]
        pairs = [(tag, value) for tag, value in values if not isinstance(value, StatisticsPart)]
        if not parts:
            return pairs
        table = self._table(parts)
        first = origin(self.names, table)
        rms, counts = table[:, COLUMNS.index("gradient_rms")], table[:, _NON_FINITE]
        is_bad = (counts > 0).any(1)
        with np.errstate(divide="ignore"):
            self._history.add(step, np.where(is_bad, np.inf, np.log10(rms)))
        self._unwritten = {
            STATISTICS_TAG: partial(Tensor, to_stored(table)),
            PICTURE_TAG: self._picture,
        }
        due = []
        if self._schedule.collects_tables(step):
            due.append(STATISTICS_TAG)
        if self._schedule.collects_pictures(step):
            due.append(PICTURE_TAG)
        if first is not None and self._is_worth_a_warning(first[1]):
            self._warn(step, first, int(is_bad.sum()), dict(pairs).get("loss/auto"))
            if STATISTICS_TAG not in due:
                due.insert(0, STATISTICS_TAG)
        pairs += [(tag, self._unwritten.pop(tag)()) for tag in due]
        scalars = [(NON_FINITE_TAG, float(is_bad.sum()))]
        if not np.isnan(rms).all():
            scalars.append((LARGEST_TAG, float(np.nanmax(rms))))
        return [*pairs, *scalars]

    def _is_worth_a_warning(self, kind: str) -> bool:
        """Tell whether to warn of a non-finite number; skipped overflows are normal."""
        if self._has_warned:
            return False
        return not (self._skips_overflow and kind == "gradient")

    def rest(self) -> _Pairs:
        """Return the table and image of the last collected step if not yet written.

        At the end of a run both are written.
        """
        unwritten, self._unwritten = self._unwritten, {}
        return [(tag, make()) for tag, make in unwritten.items()]

    def _held_by(
        self, optimizer: int, parameters: Sequence[nn.Parameter], selected: Sequence[NamedParameter]
    ) -> Sequence[NamedParameter]:
        """Return the selected parameters that an optimizer holds.

        The list is the same while both are the same.
        """
        known = self._held.get(optimizer)
        if known is None or known[0] is not selected or not _are_same(known[1], parameters):
            held = {id(parameter) for parameter in parameters}
            own = [each for each in selected if id(each.parameter) in held]
            known = self._held[optimizer] = (selected, parameters, own)
        return known[2]

    def _planned(
        self,
        kind: str,
        optimizer: int | None,
        named: Sequence[NamedParameter],
        tensors: Sequence[Any],
        use: Callable[[RowPlan, Sequence[Any]], _T],
    ) -> tuple[_Together, _T]:
        """Call ``use`` with a plan for some parameters' tensors, and the tensors.

        The plan of the last step is used if it still fits.
        """
        together = self._together.pop((kind, optimizer), None)
        result: _T | None = None
        if together is not None and _are_same(named, together.named):
            with contextlib.suppress(RuntimeError):  # a parameter has got data of another shape
                result = use(together.plan, tensors)
        if together is None or result is None:
            together = _Together(
                named, np.array([self._row(each.name) for each in named], np.intp), RowPlan(tensors)
            )
            result = use(together.plan, tensors)
        if together.plan.is_lasting:
            self._together[kind, optimizer] = together
        return together, result

    def _row(self, name: str) -> int:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = len(self.names)
            self.names.append(name)
        return row

    def _table(self, parts: Sequence[StatisticsPart]) -> np.ndarray[Any, np.dtype[np.float64]]:
        table = np.full((len(self.names), len(COLUMNS)), np.nan)
        for part in parts:
            for column, (kind, name) in _FIELDS.items():
                if part.kind == kind:
                    table[part.rows, COLUMNS.index(column)] = getattr(part.statistics, name)
        with np.errstate(invalid="ignore", divide="ignore"):
            table[:, COLUMNS.index("update_ratio")] /= table[:, COLUMNS.index("weight_rms")]
        return table

    def _picture(self) -> SummaryValue:
        return heat_map(
            "log10 of the gradients' root mean square", self.names, *self._history.columns()
        )

    def _warn(
        self, step: int, first: tuple[str, str], affected: int, loss: SummaryValue | None
    ) -> None:
        self._has_warned = True
        _LOG.warning(
            "step %d: the %s of %s is not finite, for the first time in this run. At this step %d "
            "of %d parameters are affected, and the loss is %s. To see the steps before, run: "
            "mindsummary show RUN",
            *(
                step,
                first[1],
                first[0],
                affected,
                len(self.names),
                "not recorded" if loss is None else f"{loss:g}",
            ),
        )


_NON_FINITE = [COLUMNS.index("gradient_non_finite"), COLUMNS.index("weight_non_finite")]


@contextlib.contextmanager
def _noting(values: StepValues, what: str) -> Iterator[None]:
    """Return a context that adds an error to ``values.problems`` without raising it."""
    try:
        yield
    except Exception as error:
        values.problems.append((f"{STATISTICS_TAG} of {what}", error))


def _weights(named: Sequence[NamedParameter]) -> list[torch.Tensor]:
    return [each.parameter if each.mask is None else each.value() for each in named]


def _add(
    values: StepValues,
    kind: str,
    together: _Together,
    parts: Sequence[RowStatistics],
    scale: torch.Tensor | None = None,
) -> None:
    for part in parts:
        tables = (
            [part.table] if scale is None else [part.table, scale.to(part.table.device).reshape(1)]
        )
        values.add_deferred(
            STATISTICS_TAG, tables, partial(_built, kind, together.rows[part.places], part)
        )


def _difference(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Compute how a weight has changed, in place if its dtype is exact enough.

    bfloat16 would round the difference to two digits.
    """
    return as_exact(before).sub_(as_exact(after))


def _built(
    kind: str, rows: NDArray[np.intp], part: RowStatistics, tables: list[torch.Tensor]
) -> StatisticsPart:
    return StatisticsPart(
        kind, rows, part.statistics(tables[0], float(tables[1]) if len(tables) > 1 else 1.0)
    )
