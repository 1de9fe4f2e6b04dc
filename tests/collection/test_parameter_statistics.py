"""Statistics of parameters that are unlike others, or not those of the step before, without a
Trainer.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mindsummary_lightning.collection.parameter_selection import NamedParameter
from mindsummary_lightning.collection.parameter_statistics import (
    ParameterStatistics,
    StatisticsPart,
)
from mindsummary_lightning.collection.schedule import Schedule
from mindsummary_lightning.collection.step_values import StepValues
from mindsummary_lightning.values.statistics_columns import COLUMNS, to_stored

Numbers = dict[str, dict[str, float]]


def _statistics(has_updates: bool = True) -> ParameterStatistics:
    return ParameterStatistics([], Schedule(1), has_updates, skips_overflow=False)


def _named(**tensors: torch.Tensor) -> list[NamedParameter]:
    made = {
        name: nn.Parameter(tensor.clone(), requires_grad=False) for name, tensor in tensors.items()
    }
    for parameter in made.values():
        parameter.grad = parameter.detach().clone()
    return [NamedParameter(name, parameter) for name, parameter in made.items()]


def _step(
    taker: ParameterStatistics, named: list[NamedParameter], *optimizers: list[Any]
) -> tuple[Numbers, list[str]]:
    """What is known of each kind and row after a step that doubles all weights, and what went
    wrong.
    """
    for number, parameters in enumerate(optimizers or [[each.parameter for each in named]]):
        taker.take_gradients(number, parameters, named, None)
    for parameter in {id(each.parameter): each.parameter for each in named}.values():
        parameter.detach().copy_(
            parameter.detach().to(torch.complex64 if parameter.is_complex() else torch.float64) * 2
        )
    values = StepValues()
    taker.move_into(values, named)
    known: Numbers = {}
    for _, part in values.drain():
        assert isinstance(part, StatisticsPart)
        for at, row in enumerate(part.rows):
            known.setdefault(taker.names[row], {})[part.kind] = float(part.statistics.rms[at])
    return known, [f"{tag}: {problem}" for tag, problem in values.problems]


_ODD = {
    "nothing": torch.empty(0, 3),
    "one number": torch.tensor(-3.0),
    "double": torch.full((7,), 1e100, dtype=torch.float64),
    "complex": torch.full((4,), 3 + 4j),
    "eight bits": torch.full((7,), 2.0).to(torch.float8_e4m3fn),
    "bfloat16": torch.full((2, 3), 0.5, dtype=torch.bfloat16),
    "transposed": torch.full((5, 4), 1.5).t(),
    "float": torch.full((600, 9), 0.25),
}


@pytest.mark.parametrize("has_updates", [True, False])
def test_parameters_of_any_kind_stand_in_one_table(has_updates: bool) -> None:
    known, problems = _step(_statistics(has_updates), _named(**_ODD))

    assert problems == []
    for name, tensor in _ODD.items():
        size = float(tensor.flatten()[0].abs()) if tensor.numel() else np.nan
        expected = {"gradient": size, "weight": 2 * size} | (
            {"update": size} if has_updates else {}
        )
        assert known[name] == pytest.approx(expected, rel=1e-6, nan_ok=True), name


def test_what_has_no_numbers_leaves_the_others_theirs() -> None:
    taker, named = _statistics(), _named(ghost=torch.empty(3, device="meta"), real=torch.ones(3))
    taker.take_gradients(0, [each.parameter for each in named], named, None)
    values = StepValues()
    taker.move_into(values, named)
    parts = [part for _, part in values.drain()]

    assert [taker.names[part.rows[0]] for part in parts if isinstance(part, StatisticsPart)] == [
        "real"
    ] * 3
    assert [tag for tag, _ in values.problems] == ["parameter_statistics"] * 3


class _NoMemory(torch.Tensor):
    def reshape(self, *shape: Any) -> Any:
        raise torch.OutOfMemoryError("no memory on the device")


def test_a_gradient_that_cannot_be_read_is_noted_and_costs_gradients_alone() -> None:
    taker, named = _statistics(), _named(first=torch.ones(3), second=torch.ones(3))
    gradient = torch.ones(4).as_subclass(_NoMemory)
    named[0].parameter.data = torch.ones(4)
    named[0].parameter.grad = gradient
    known, problems = _step(taker, named)

    assert problems == ["parameter_statistics of gradients: no memory on the device"]
    for name in ("first", "second"):
        assert known[name] == pytest.approx({"weight": 2.0, "update": 1.0})


def test_a_parameter_of_two_optimizers_has_the_update_of_both() -> None:
    named = _named(shared=torch.ones(3), own=torch.ones(2), frozen=torch.ones(2))
    shared, own, _ = (each.parameter for each in named)
    known, problems = _step(_statistics(), named, [shared, own], [shared])

    assert problems == []
    assert known["shared"] == pytest.approx({"gradient": 1.0, "weight": 2.0, "update": 1.0})
    assert known["frozen"] == pytest.approx({"weight": 2.0})


def test_the_update_of_a_parameter_counts_from_before_the_first_of_its_optimizers() -> None:
    named, taker = _named(shared=torch.ones(3), own=torch.ones(2)), _statistics()
    shared, own = (each.parameter for each in named)
    for optimizer, parameter in enumerate((shared, own, shared)):
        taker.take_gradients(optimizer, [parameter], named, None)
        parameter.detach().add_(1 + optimizer)
    values = StepValues()
    taker.move_into(values, named)
    updates = {
        taker.names[part.rows[0]]: part.statistics.rms.tolist()
        for _, part in values.drain()
        if isinstance(part, StatisticsPart) and part.kind == "update" and len(part.rows)
    }

    assert values.problems == []
    assert updates == {"shared": pytest.approx([4.0]), "own": pytest.approx([2.0])}


def test_a_pruned_weight_has_the_statistics_of_what_the_module_computes_with() -> None:
    (named,) = _named(pruned=torch.tensor([3.0, 4.0, 0.0, 5.0]))
    pruned = NamedParameter("pruned", named.parameter, torch.tensor([1.0, 0.0, 1.0, 0.0]))
    taker = _statistics()
    taker.take_gradients(0, [pruned.parameter], [pruned], None)
    pruned.parameter.detach().mul_(3)
    values = StepValues()
    taker.move_into(values, [pruned])
    parts = {part.kind: part.statistics for _, part in values.drain()}

    assert values.problems == []
    assert {kind: float(part.rms[0]) for kind, part in parts.items()} == pytest.approx(
        {"gradient": 50**0.5 / 2, "weight": 9 / 2, "update": 6 / 2}
    )


def test_a_step_is_not_taken_for_the_one_before_when_parameters_change() -> None:
    taker = _statistics()
    named = _named(first=torch.ones(3), second=torch.ones(3), third=torch.ones(4))
    _step(taker, named)
    named[0].parameter.data = torch.full((5, 2), 3.0)  # the same parameter with other numbers
    named[0].parameter.grad = torch.full((5, 2), 7.0)
    named[2].parameter.grad = None
    named.append(*_named(fourth=torch.full((2,), 5.0)))
    known, problems = _step(taker, named)

    assert problems == []
    assert known["first"] == pytest.approx({"gradient": 7.0, "weight": 6.0, "update": 3.0})
    assert known["third"] == pytest.approx({"weight": 4.0, "update": 2.0})
    assert known["fourth"] == pytest.approx({"gradient": 5.0, "weight": 10.0, "update": 5.0})
    assert taker.names == ["first", "second", "third", "fourth"]

    held = [each.parameter for each in named]
    for some in (named, named[:2], named[1:2], _named(fifth=torch.ones(3))):
        known, problems = _step(taker, some, held if len(some) > 1 else [some[0].parameter])
        assert ({*known}, problems) == ({each.name for each in some}, [])


@pytest.mark.usefixtures("only_new_garbage")
def test_no_parameter_is_held_after_the_fit() -> None:
    taker, named = _statistics(), _named(first=torch.ones(3))
    taker.take_gradients(0, [named[0].parameter], named, None)
    taker.release()
    parameter = weakref.ref(named.pop().parameter)
    gc.collect()

    assert parameter() is None


def _pictured(
    taker: ParameterStatistics, step: int, gradients: list[float | None], weight: float = 1.0
) -> Any:
    """The values of a step of three parameters; ``weight`` is a number of the second."""
    named = _named(**{name: torch.ones(4) for name in "abc"})
    for each, gradient in zip(named, gradients, strict=True):
        each.parameter.grad = (
            None
            if gradient is None
            else torch.tensor([1.0 if np.isnan(gradient) else gradient, *[gradient] * 3])
        )
    named[1].parameter[0] = weight
    taker.take_gradients(0, [each.parameter for each in named], named, None)
    values = StepValues()
    taker.move_into(values, named)
    return dict(taker.finish(step, values.drain()))


def test_the_first_number_that_no_scaler_explains_is_said_once_and_has_a_table(
    caplog: pytest.LogCaptureFixture,
) -> None:
    taker = ParameterStatistics([], Schedule(1, 5), has_updates=False, skips_overflow=True)
    steps = (
        (1, [2.0, 1.0, None], 1.0),
        (2, [1.0, np.inf, None], 1.0),
        (3, [1.0] * 3, np.nan),
        (4, [1.0] * 3, np.nan),
    )
    found = [_pictured(taker, *step) for step in steps]

    assert [values["parameter_statistics/non_finite"] for values in found] == [0, 1, 1, 1]
    assert found[0]["parameter_statistics/largest_gradient_rms"] == pytest.approx(2.0)
    assert ["parameter_statistics" in values for values in found] == [True, False, True, False]
    (message,) = caplog.messages
    assert "step 3: the weight of b is not finite" in message
    assert "1 of 3 parameters are affected, and the loss is not recorded" in message
    assert [tag for tag, _ in taker.rest()] == [
        "parameter_statistics",
        "parameter_statistics/gradient_rms",
    ]
    assert taker.rest() == []
    assert "parameter_statistics/largest_gradient_rms" not in _pictured(taker, 5, [None] * 3)


def test_without_a_scaler_the_first_infinite_gradient_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    taker = ParameterStatistics([], Schedule(1), has_updates=False, skips_overflow=False)
    for step, gradient in ((1, 1.0), (2, np.inf), (3, np.inf)):
        _pictured(taker, step, [1.0, gradient, 1.0])

    (message,) = caplog.messages
    assert message.startswith("step 2: the gradient of b is not finite")


@pytest.mark.filterwarnings("error")
def test_all_columns_of_a_table_are_those_of_their_parameters() -> None:
    taker = ParameterStatistics(["gone"], Schedule(1), has_updates=True, skips_overflow=False)
    named = _named(a=torch.tensor([1.0, -5.0, 0.0, 2.0]), b=torch.tensor([2.0]), c=torch.ones(2))
    a, b, c = (each.parameter for each in named)
    a.grad, b.grad, c.grad = torch.tensor([3.0, 0.0, np.inf, -4.0]), torch.tensor([6.0]), None
    taker.take_gradients(5, [b, a], named, torch.tensor(2.0))
    a.detach().copy_(torch.tensor([4.0, -2.0, 0.0, np.nan]))
    b.detach().zero_()
    values = StepValues()
    taker.move_into(values, named)
    values.add_scalar("loss/auto", 0.25)
    pairs = dict(taker.finish(1, values.drain()))

    assert taker.names == ["gone", "a", "b", "c"]
    expected = dict.fromkeys(COLUMNS, [np.nan] * 4) | {
        "gradient_rms": [np.nan, (6.25 / 3) ** 0.5, 3.0, np.nan],
        "gradient_mean": [np.nan, 3.5 / 3, 3.0, np.nan],
        "gradient_max": [np.nan, 2.0, 3.0, np.nan],
        "gradient_zeros": [np.nan, 0.25, 0.0, np.nan],
        "gradient_non_finite": [np.nan, 1.0, 0.0, np.nan],
        "weight_rms": [np.nan, (20 / 3) ** 0.5, 0.0, 1.0],
        "weight_max": [np.nan, 4.0, 0.0, 1.0],
        "weight_non_finite": [np.nan, 1.0, 0.0, 0.0],
        "update_ratio": [np.nan, (18 / 3) ** 0.5 / (20 / 3) ** 0.5, np.inf, np.nan],
        "elements": [np.nan, 4.0, 1.0, 2.0],
    }
    table = to_stored(np.array([*expected.values()]).T)
    np.testing.assert_allclose(pairs["parameter_statistics"].data, table, rtol=1e-6, atol=1e-6)
    assert [*pairs] == [
        "loss/auto",
        "parameter_statistics",
        "parameter_statistics/non_finite",
        "parameter_statistics/largest_gradient_rms",
    ]
    assert pairs["parameter_statistics/non_finite"] == 1.0
    assert pairs["parameter_statistics/largest_gradient_rms"] == pytest.approx(3.0)


def test_gradients_of_an_unfinished_step_are_not_of_the_next() -> None:
    taker, named = _statistics(), _named(a=torch.ones(3), b=torch.ones(3), c=torch.ones(3))
    taker.take_gradients(0, [each.parameter for each in named], named, None)
    taker.clear()
    values = StepValues()
    taker.move_into(values, named)
    assert [part.kind for _, part in values.drain()] == ["weight"]

    for some in (named[:2], named[::2]):  # as many, and of the same shape
        known, _ = _step(taker, some)
        assert [*known] == [each.name for each in some]


def test_a_number_that_is_not_finite_and_a_thousandth_are_seen_in_the_picture() -> None:
    pictures = set()
    for last in (1.0, np.nan, 1e-3, 1e-6):
        taker = ParameterStatistics(
            [], Schedule(1, 1, total=1), has_updates=False, skips_overflow=False
        )
        pictures.add(
            _pictured(taker, 1, [1.0, 1e-6, last])["parameter_statistics/gradient_rms"].encoded
        )

    assert len(pictures) == 4
