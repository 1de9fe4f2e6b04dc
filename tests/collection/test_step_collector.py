"""The collector of steps without a Trainer: bounds, order, and nothing left over from
another step.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from mindsummary_lightning.collection import operator_buffer, step_values
from mindsummary_lightning.collection.operators import scalar_summary
from mindsummary_lightning.collection.options import CollectOptions
from mindsummary_lightning.collection.parameter_selection import NamedParameter
from mindsummary_lightning.collection.parameter_statistics import ParameterStatistics
from mindsummary_lightning.collection.schedule import Schedule
from mindsummary_lightning.collection.sharding import is_flattened, is_sharded
from mindsummary_lightning.collection.step_collector import StepCollector, image_batch
from mindsummary_lightning.collection.step_values import StepValues


def _none() -> list[NamedParameter]:
    return []


def _collector(
    named: list[NamedParameter] | None = None, gradients: Any = None, freq: int = 1, **options: Any
) -> StepCollector:
    return StepCollector(
        CollectOptions(**options), Schedule(freq), named or [], gradients, 0, is_rank_zero=True
    )


def _step(collector: StepCollector, loss: float = 1.0) -> None:
    collector.begin_batch(_none)
    collector.end_batch(lambda: torch.tensor(loss), True, None)


@pytest.fixture(autouse=True)
def closed_operators() -> Iterator[None]:
    yield
    assert not operator_buffer.is_open


def test_steps_in_flight_are_bounded_however_far_a_device_is_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StepValues, "is_ready", lambda self: False)
    collector = _collector()
    arrived = []
    for _ in range(10):
        _step(collector)
        arrived += [step for step, _ in collector.drain()]
        assert len(collector._in_flight) <= 2

    assert arrived == list(range(1, 9))
    assert [step for step, _ in collector.drain(wait=True)] == [9, 10]


def test_values_of_a_device_are_on_their_way_when_their_step_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step_values, "must_wait", lambda tensor: True)
    collector = _collector()
    _step(collector, 2.5)

    assert list(collector.drain()) == [(1, [("loss/auto", 2.5)])]
    assert not collector.has_in_flight


def test_a_norm_that_was_taken_for_a_step_is_not_left_for_another() -> None:
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    collector = _collector(
        named := [NamedParameter("weight", parameter)], True, histogram_regular="weight"
    )
    collector.begin_batch(lambda: named)
    collector.take_gradients(torch.optim.SGD([parameter], lr=0.1), lambda: None)
    collector.end_batch(lambda: None, True, None)
    collector.begin_batch(lambda: named)
    collector.end_batch(lambda: None, True, None)

    tags = {step: [tag for tag, _ in pairs] for step, pairs in collector.drain(wait=True)}
    assert tags == {1: ["weight/auto", "weight.gradient", "gradient_norm"], 2: ["weight/auto"]}


def test_gradients_of_a_step_that_was_begun_and_not_done_are_dropped_at_the_end() -> None:
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    collector = _collector(
        named := [NamedParameter("weight", parameter)], True, freq=2, histogram_regular="weight"
    )
    for _ in range(3):
        _step(collector)
    collector.begin_batch(lambda: named)
    collector.take_gradients(torch.optim.SGD([parameter], lr=0.1), lambda: None)
    collector.end_run(_none)

    assert [
        step
        for step, pairs in collector.drain(wait=True)
        if any(tag == "gradient_norm" for tag, _ in pairs)
    ] == []


@pytest.mark.parametrize("end", ["end_run", "close_operators"])
def test_operators_are_closed_when_a_run_ends_or_breaks_off_within_a_step(end: str) -> None:
    collector = _collector()
    collector.begin_batch(_none)
    assert operator_buffer.is_open
    collector.end_run(_none) if end == "end_run" else collector.close_operators()

    assert not operator_buffer.is_open


def test_operators_of_a_batch_that_is_not_collected_are_not_taken() -> None:
    collector = _collector(freq=3)
    for _ in range(3):
        collector.begin_batch(_none)
        scalar_summary("seen", 1.0)
        collector.end_batch(lambda: None, True, None)

    found = [step for step, pairs in collector.drain(wait=True) if ("seen", 1.0) in pairs]
    assert found == [1, 3]


def test_a_parameter_of_no_dimension_is_a_histogram_of_one_element_and_so_is_its_gradient() -> None:
    temperature = nn.Parameter(torch.tensor(2.0))
    temperature.grad = torch.tensor(-3.0)
    collector = _collector(named := [NamedParameter("temperature", temperature)], True)
    collector.begin_batch(lambda: named)
    collector.take_gradients(torch.optim.SGD([temperature], lr=0.1), lambda: None)
    collector.end_batch(lambda: None, True, None)

    ((_, pairs),) = collector.drain(wait=True)
    found: dict[str, Any] = dict(pairs)
    assert (found["temperature/auto"].min, found["temperature/auto"].count) == (2.0, 1)
    assert (found["temperature.gradient"].max, found["temperature.gradient"].count) == (-3.0, 1)


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_parameters_of_a_lazy_module_are_recorded_from_when_it_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    layer, never = nn.LazyLinear(2), nn.LazyLinear(2)
    other = nn.Parameter(torch.ones(2))
    named = [NamedParameter("never", never.weight), NamedParameter("weight", layer.weight)]
    named.append(NamedParameter("other", other))
    schedule = Schedule(1)
    statistics = ParameterStatistics([], schedule, True, False)
    options = CollectOptions(histogram_regular="weight|never", collect_metric=True)
    collector = StepCollector(options, schedule, named, True, 0, True, statistics, ".*")
    optimizer = torch.optim.SGD([each.parameter for each in named], lr=0.1)
    rows = []
    for _ in range(2):
        collector.begin_batch(lambda: named)
        collector.take_gradients(optimizer, lambda: None)
        collector.end_batch(lambda: torch.tensor(1.0), True, None)
        rows.append(
            [tag for _, pairs in collector.drain() for tag, _ in pairs if "statistics" not in tag]
        )
        layer(torch.ones(1, 3))

    assert rows == [["loss/auto"], ["weight/auto", "loss/auto"]]
    assert collector.statistics_names == ["other", "weight"]
    assert not caplog.records


def test_parameters_of_fsdp1_are_skipped_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    flat, whole = nn.Parameter(torch.ones(5)), nn.Parameter(torch.ones(4))
    flat._fsdp_flattened = True  # type: ignore[attr-defined]  # as FSDP1 marks it
    flat.grad = torch.ones(5)
    collector = _collector(
        named := [NamedParameter("flat", flat), NamedParameter("whole", whole)],
        True,
        histogram_regular=".*",
    )
    collector.begin_batch(lambda: named)
    collector.take_gradients(torch.optim.SGD([flat, whole], lr=0.1), lambda: None)
    collector.end_batch(lambda: None, True, None)

    assert (is_flattened(flat), is_sharded(flat), is_sharded(whole)) == (True, True, False)
    ((_, pairs),) = collector.drain(wait=True)
    assert [tag for tag, _ in pairs] == ["whole/auto"]
    (said,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert "FSDP1" in said


_IMAGES = torch.zeros(2, 3, 4, 4)
_LABELS = torch.zeros(2)


class _Sample(NamedTuple):
    label: Any
    image: Any


@dataclass
class _Batch:
    labels: Any
    images: Any


class _Object:
    def __init__(self) -> None:
        self.images = _IMAGES


@pytest.mark.parametrize(
    "batch",
    [
        _IMAGES,
        [_IMAGES, _LABELS],
        (_IMAGES, _LABELS),
        ((_IMAGES, _LABELS), _LABELS),
        {"label": _LABELS, "image": _IMAGES},
        [{"label": _LABELS, "image": [_IMAGES]}],
        [_LABELS, _IMAGES],
        _Sample(_LABELS, _IMAGES),
        _Batch(_LABELS, {"views": (_IMAGES, torch.ones(2, 3, 4, 4))}),
        [_Object()],
    ],
    ids=[
        "tensor",
        "list",
        "tuple",
        "nested",
        "dict",
        "mixed",
        "second",
        "named tuple",
        "dataclass",
        "object",
    ],
)
def test_the_images_of_a_batch_are_found(batch: Any) -> None:
    assert image_batch(batch) is _IMAGES


@pytest.mark.parametrize(
    "batch",
    [
        _Batch,
        torch.zeros(2, 4, 4, 4),
        torch.zeros(3, 4, 4),
        torch.zeros(0, 3, 4, 4),
        [],
        {},
        None,
        "images",
        {"label": _LABELS},
    ],
    ids=[
        "a class",
        "four channels",
        "no batch",
        "no pixels",
        "empty",
        "empty dict",
        "none",
        "text",
        "labels",
    ],
)
def test_a_batch_without_images_has_none(batch: Any) -> None:
    assert image_batch(batch) is None


def test_a_batch_that_contains_itself_has_none() -> None:
    batch: list[Any] = [_LABELS]
    batch.append(batch)

    assert image_batch(batch) is None
