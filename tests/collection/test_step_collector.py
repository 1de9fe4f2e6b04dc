"""The collector of steps without a Trainer: bounds, order, and nothing left over from
another step.
"""

from __future__ import annotations

import gc
import logging
import weakref
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
from tests.collection.two_ranks import of_two_ranks, part_of


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


@pytest.mark.parametrize("raises", [False, True])
def test_a_value_that_cannot_be_recorded_raises_only_if_asked_to(
    raises: bool, caplog: pytest.LogCaptureFixture
) -> None:
    collector = _collector()
    collector.raises = raises
    collector.begin_batch(_none)
    scalar_summary("wrong", torch.ones(2))
    collector.end_batch(lambda: torch.tensor(0.5), True, None)
    steps = collector.drain()

    assert next(steps) == (1, [("loss/auto", 0.5)])
    if raises:
        with pytest.raises(ValueError, match=r"^wrong: "):
            next(steps)
    assert list(steps) == []
    collector.close_operators(is_over=True)
    (message,) = caplog.messages
    assert message.startswith("wrong is not recorded: ")


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
    before = operator_buffer.open_buffers()
    collector = _collector()
    collector.begin_batch(_none)
    assert operator_buffer.is_open
    collector.end_run(_none) if end == "end_run" else collector.close_operators()

    assert not operator_buffer.is_open
    own = [buffer for buffer in operator_buffer.open_buffers() if buffer not in before]
    assert len(own) == (end == "close_operators")  # then the training goes on


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


class _Outputs:
    """Takes a number at each step that it is asked for, and names it when it has arrived."""

    def __init__(self) -> None:
        self.moved = 0

    def move_into(self, values: StepValues) -> None:
        self.moved += 1
        values.add_scalar("output", float(self.moved))

    def finish(self, pairs: Any) -> list[tuple[str, Any]]:
        return [(f"finished {tag}", value) for tag, value in pairs]


def test_output_statistics_are_of_their_own_steps_alone() -> None:
    schedule = Schedule(4, chain_steps={2, 4})
    collector = StepCollector(
        CollectOptions(), schedule, [], None, 0, is_rank_zero=True, chain=_Outputs()
    )
    taken = [collector.takes_chain]
    for number in range(1, 5):
        collector.begin_batch(_none)
        taken.append(collector.takes_chain)
        collector.end_batch(lambda: None, False, None)  # a batch that is accumulated
        taken.append(collector.takes_chain)
        collector.begin_batch(_none)
        collector.end_batch(lambda number=number: torch.tensor(float(number)), True, None)  # type: ignore[misc]
        taken.append(collector.takes_chain)

    assert taken == [*[False] * 4, True, True, False, *[False] * 3, True, True, False]
    assert list(collector.drain(wait=True)) == [
        (1, [("finished loss/auto", 1.0)]),
        (2, [("finished output", 1.0)]),
        (4, [("finished loss/auto", 4.0), ("finished output", 2.0)]),
    ]


def test_each_rank_collects_what_all_must_and_the_first_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = torch.arange(6.0).reshape(3, 2)

    def collected(rank: int, group: Any) -> list[Any]:
        shared, own = part_of(whole, rank, group), nn.Parameter(torch.ones(2))
        named = [NamedParameter("own", own), NamedParameter("shared", shared)]
        options = CollectOptions(histogram_regular=".*", collect_metric=True)
        collector = StepCollector(options, Schedule(1), named, None, 0, is_rank_zero=rank == 0)
        collector.begin_batch(lambda: named)
        scalar_summary("operator", 1.0)
        collector.end_batch(lambda: torch.tensor(0.5), True, _IMAGES)
        collector.begin_batch(lambda: named)
        collector.end_batch(lambda: None, True, None)
        collector.end_run(lambda: named)
        return [dict(pairs) for _, pairs in collector.drain(wait=True)]

    first, second = of_two_ranks(collected)

    assert [[*pairs] for pairs in first] == [
        ["input_data/auto", "operator", "own/auto", "shared/auto", "loss/auto"],
        ["own/auto", "shared/auto"],
    ]
    assert [[*pairs] for pairs in second] == [["shared/auto"]] * 2
    for pairs in (*first, *second):
        assert (pairs["shared/auto"].count, pairs["shared/auto"].max) == (6, 5.0)
    assert caplog.messages == []


def test_gradients_may_be_of_other_parameters_than_histograms() -> None:
    named = [NamedParameter(name, nn.Parameter(torch.ones(size))) for name, size in _SIZES.items()]
    for each in named:
        each.parameter.grad = torch.ones_like(each.parameter)
    collector = _collector(named, "second|third", histogram_regular="first")
    collector.begin_batch(lambda: named)
    collector.take_gradients(
        torch.optim.SGD([each.parameter for each in named], lr=0.1), lambda: torch.tensor(0.5)
    )
    collector.end_batch(lambda: torch.tensor(1.0), True, None)

    ((_, pairs),) = collector.drain(wait=True)
    assert [tag for tag, _ in pairs] == [
        *("first/auto", "second.gradient", "third.gradient", "gradient_norm", "loss/auto")
    ]
    assert dict(pairs)["gradient_norm"] == pytest.approx(2 * 6**0.5)


_SIZES = {"first": 1, "second": 2, "third": 3}


def test_gradients_are_looked_at_on_collected_steps_alone() -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    optimizer, asked = torch.optim.SGD([weight], lr=0.1), []
    options = CollectOptions(histogram_regular="weight", collect_metric=False)
    named = [NamedParameter("weight", weight)]
    collector = StepCollector(options, Schedule(4, chain_steps={2, 3}), named, True, 0, True)
    for number in range(1, 6):
        collector.begin_batch(lambda: named)
        collector.take_gradients(optimizer, lambda number=number: asked.append(number))  # type: ignore[misc]
        collector.end_batch(lambda: None, True, None)

    assert asked == [1, 4]
    tags = {step: [tag for tag, _ in pairs] for step, pairs in collector.drain(wait=True)}
    everything = ["weight/auto", "weight.gradient", "gradient_norm"]
    assert tags == {1: everything, 2: [], 3: [], 4: everything}


def test_what_the_last_step_has_left_is_handed_out_at_the_end() -> None:
    named = [NamedParameter(name, nn.Parameter(torch.ones(size))) for name, size in _SIZES.items()]
    schedule = Schedule(2, total=6, step=0)
    statistics = ParameterStatistics([], schedule, False, False)
    options = CollectOptions(collect_metric=False, histograms=False)
    collector = StepCollector(options, schedule, named, None, 0, True, statistics, "[ft]")
    for _ in range(5):
        collector.begin_batch(lambda: named)
        collector.end_batch(lambda: None, True, None)
    collector.end_run(lambda: named)

    assert collector.statistics_names == ["first", "third"]
    table, picture, count = (
        "parameter_statistics",
        "parameter_statistics/gradient_rms",
        "parameter_statistics/non_finite",
    )
    tags = [(step, [tag for tag, _ in pairs]) for step, pairs in collector.drain(wait=True)]
    assert tags == [
        (1, [table, count]),
        (2, [table, picture, count]),
        (4, [table, count]),
        (5, [table, count]),
        (5, [picture]),
    ]


@pytest.mark.usefixtures("only_new_garbage")
def test_no_parameter_is_held_after_a_fit() -> None:
    schedule = Schedule(1)
    statistics = ParameterStatistics([], schedule, True, False)
    collector = StepCollector(CollectOptions(), schedule, [], True, 0, True, statistics, ".*")

    def fit() -> list[weakref.ref[torch.Tensor]]:
        weights = {name: nn.Parameter(torch.ones(size)) for name, size in _SIZES.items()}
        named = [NamedParameter(*pair) for pair in weights.items()]
        for weight in weights.values():
            weight.grad = torch.ones_like(weight)
        optimizer = torch.optim.SGD(weights.values(), lr=0.1)
        for has_stepped in (True, False):
            collector.begin_batch(lambda: named)
            collector.take_gradients(optimizer, lambda: None)
            collector.end_batch(lambda: None, has_stepped, None)
        collector.end_run(lambda: named)
        list(collector.drain(wait=True))
        collector.release()
        return [weakref.ref(weight) for weight in weights.values()]

    held = fit()
    gc.collect()

    assert [reference() for reference in held] == [None] * 3
    assert (collector.statistics_names, _collector().statistics_names) == ([*_SIZES], [])


@pytest.mark.parametrize(("is_rank_zero", "count"), [(True, 1), (False, 0)])
def test_the_first_rank_says_before_any_step_that_nothing_matches(
    is_rank_zero: bool, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    named = [NamedParameter("weight", nn.Parameter(torch.ones(2)))]
    options = CollectOptions(histogram_regular="wait")
    StepCollector(options, Schedule(1), named, None, 0, is_rank_zero)

    assert sum("histogram_regular 'wait' matches" in text for text in caplog.messages) == count
    assert len(caplog.messages) == count
    assert all(text.endswith("closest parameter names are weight") for text in caplog.messages)


def test_what_is_absent_is_said_once_to_who_has_asked_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = CollectOptions.from_dict({"collect_input_data": True, "collect_metric": True}, True)
    for options in (CollectOptions(), asked):
        assert caplog.messages == []
        collector = StepCollector(options, Schedule(1), [], None, 0, is_rank_zero=True)
        for _ in range(2):
            collector.begin_batch(_none)
            collector.end_batch(lambda: None, True, _LABELS)

    assert [message.partition(" ")[0] for message in caplog.messages] == [
        "input_data/auto",
        "loss/auto",
    ]


def test_no_step_keeps_who_knows_the_parameters() -> None:
    collector, asked = _collector(), _Parameters()
    known = weakref.ref(asked)
    collector.begin_batch(asked)
    collector.end_batch(lambda: None, True, None)
    del asked

    assert known() is None


class _Parameters:
    def __call__(self) -> list[NamedParameter]:
        return []


def test_the_loss_of_a_step_is_the_mean_of_its_batches_and_of_no_others() -> None:
    collector = _collector(freq=2)
    losses = iter([1.0, 3.0, 8.0, 5.0, 7.0, 2.0])
    known = []
    for has_stepped in (False, True, False, False, True, True):
        collector.begin_batch(_none)
        loss = next(losses)
        collector.end_batch(lambda loss=loss: torch.tensor(loss), has_stepped, None)  # type: ignore[misc]
        known.append(collector.last_loss())

    assert known == [None, 2.0, 2.0, 2.0, pytest.approx(20 / 3), 2.0]
    assert dict(collector.drain(wait=True)) == {
        1: [("loss/auto", 2.0)],
        2: [("loss/auto", pytest.approx(20 / 3))],
    }


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
