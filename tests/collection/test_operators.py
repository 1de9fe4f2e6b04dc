"""The summary operators wherever a model may run."""

from __future__ import annotations

import contextvars
import multiprocessing
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mindsummary_lightning import (
    HistogramSummary,
    ImageSummary,
    MindInsightLogger,
    ScalarSummary,
    SummaryCollector,
    SummaryReader,
    SummaryRecord,
    TensorSummary,
    histogram_summary,
    image_summary,
    scalar_summary,
    tensor_summary,
)
from mindsummary_lightning.collection import operator_buffer
from tests.trainer.support import Net, loader, points, steps, trainer

_NOTHING_ELSE: dict[str, Any] = {"collect_specified_data": None, "keep_default_action": False}


class Recording(nn.Module):
    """A layer with one operator of each kind, deep inside a model."""

    def __init__(self) -> None:
        super().__init__()
        self.scalar, self.tensor = ScalarSummary(), TensorSummary()
        self.image, self.histogram = ImageSummary(), HistogramSummary()

    def forward(self, x: Tensor) -> Tensor:
        self.scalar("mean", x.mean())
        self.tensor("values", x)
        self.image("picture", x.reshape(1, 1, 4, -1))
        self.histogram("spread", x)
        return x


class OperatorNet(Net):
    def __init__(
        self, layer: nn.Module | None = None, probe: Callable[..., object] | None = None
    ) -> None:
        super().__init__(probe=probe)
        self.nested = nn.Sequential(nn.Identity(), nn.Sequential(layer or Recording()))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.nested(x))

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])


def _fit(run: Path, net: Any, freq: int = 2, **options: Any) -> None:
    collector = SummaryCollector(run, freq, **_NOTHING_ELSE)
    trainer(logger=False, callbacks=[collector], **options).fit(net, loader())


def _means() -> list[float]:
    return [float(x.mean()) for x, _ in loader()]


def test_every_kind_is_recorded_under_its_bare_name_on_collected_steps(tmp_path: Path) -> None:
    _fit(tmp_path, OperatorNet())

    batches = [x.numpy() for x, _ in loader()]
    assert steps(tmp_path, "mean") == [1, 2, 4, 6]
    for step, _, value in SummaryReader(tmp_path).tensors("values"):
        np.testing.assert_array_equal(value.data, batches[step - 1])
    for step, _, histogram in SummaryReader(tmp_path).histograms("spread"):
        assert (histogram.min, histogram.max) == (batches[step - 1].min(), batches[step - 1].max())
    assert steps(tmp_path, "picture", "image") == [1, 2, 4, 6]
    expected = [_means()[step - 1] for step in (1, 2, 4, 6)]
    assert [value for _, value in points(tmp_path, "mean")] == pytest.approx(expected, rel=1e-6)


def test_what_a_user_records_in_a_training_takes_no_values_of_operators(tmp_path: Path) -> None:
    class Own(Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            trainer.logger.experiment.record(100 + trainer.global_step)

    logger = MindInsightLogger(tmp_path, name="", version="")
    trainer(logger=logger, callbacks=[SummaryCollector(**_NOTHING_ELSE), Own()]).fit(
        OperatorNet(), loader()
    )

    assert max(steps(tmp_path, "mean")) < 100


def test_tensors_follow_the_tensor_range_and_the_rest_does_not(tmp_path: Path) -> None:
    collector = SummaryCollector(tmp_path, 1, collect_tensor_freq=4, **_NOTHING_ELSE)
    trainer(logger=False, callbacks=[collector]).fit(OperatorNet(), loader())

    assert steps(tmp_path, "values", "tensor") == [1, 4]
    assert steps(tmp_path, "mean") == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model_records_the_same(tmp_path: Path, fullgraph: bool, backend: str) -> None:
    torch._dynamo.reset()
    net = OperatorNet()
    net.nested = torch.compile(net.nested, backend=backend, fullgraph=fullgraph)  # type: ignore[assignment]
    _fit(tmp_path, net)

    expected = [(step, pytest.approx(_means()[step - 1], rel=1e-6)) for step in (1, 2, 4, 6)]
    assert points(tmp_path, "mean") == expected
    assert (
        steps(tmp_path, "values", "tensor")
        == steps(tmp_path, "spread", "histogram")
        == [1, 2, 4, 6]
    )


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_recomputed_forward_pass_is_recorded_once(
    tmp_path: Path, use_reentrant: bool, caplog: pytest.LogCaptureFixture
) -> None:
    passes: list[int] = []

    class Recomputed(OperatorNet):
        def forward(self, x: Tensor) -> Tensor:
            return self.second(
                checkpoint(self._inner, x.requires_grad_(), use_reentrant=use_reentrant)
            )  # type: ignore[no-any-return]

        def _inner(self, x: Tensor) -> Tensor:
            passes.append(1)
            hidden = self.first(self.nested(x)).relu()
            scalar_summary("pass", float(len(passes)))
            return hidden

    _fit(tmp_path, Recomputed(), freq=1)

    assert len(passes) == 12
    assert points(tmp_path, "pass") == [(step, 2.0 * step - 1) for step in range(1, 7)]
    assert not [
        record for record in caplog.records if "was recorded twice in one step" in record.message
    ]


def test_a_record_takes_the_newest_of_many_values_and_the_first_of_a_recomputed_pass(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    passes: list[float] = []

    def inner(x: Tensor) -> Tensor:
        passes.append(1.0 + len(passes))
        scalar_summary("pass", passes[-1])
        return x.square()

    weight = torch.ones(2, requires_grad=True)
    with SummaryRecord(tmp_path) as record:
        for step in (1, 2):
            for number in (1.0, 2.0):
                scalar_summary("newest", 10 * step + number)
            output: Any = checkpoint(inner, weight, use_reentrant=False)
            output.sum().backward()
            record.record(step)
        weight.register_hook(lambda gradient: scalar_summary("pass", gradient.sum()))
        (5 * weight).sum().backward()
        record.record(3)

    assert passes == [1, 2, 3, 4]
    assert points(tmp_path, "newest") == [(1, 12.0), (2, 22.0)]
    assert points(tmp_path, "pass") == [(1, 1.0), (2, 3.0), (3, 10.0)]
    assert caplog.messages == []


def test_a_compiled_step_gives_what_the_same_step_gives_without_compilation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def step(x: Tensor) -> Tensor:
        scalar_summary("lowest", -(2**63))
        scalar_summary("just wide", 2**63)  # which 64 bits do not hold
        scalar_summary("wide", -(2**70))
        scalar_summary("widest", 2**1024 - 2**971)  # the largest float
        scalar_summary("beyond", -(2**1030))
        scalar_summary("yes", True)
        tensor_summary("numbers", [[1, 2, 3], [4, 5, 6]])  # type: ignore[arg-type]
        tensor_summary("tensors", [x, x + 1])  # type: ignore[arg-type]
        tensor_summary("ragged", [[1], [2, 3]])  # type: ignore[arg-type]
        tensor_summary("uneven", [x, x[:1]])  # type: ignore[arg-type]
        tensor_summary("empty", [])  # type: ignore[arg-type]
        tensor_summary("half empty", [[], [1]])  # type: ignore[arg-type]
        absent = torch.empty(2, device="meta")
        tensor_summary("absent", absent)
        tensor_summary("absent ones", [absent, absent])  # type: ignore[arg-type]
        return x * 2

    torch._dynamo.reset()
    for name, run in (
        ("eager", step),
        ("compiled", torch.compile(step, backend="eager", fullgraph=True)),
    ):
        with SummaryRecord(tmp_path / name) as record:
            run(torch.tensor([1.0, 3.0]))
            assert not record.record(1)  # some cannot be recorded
        reader = SummaryReader(tmp_path / name)
        assert {tag: points(tmp_path / name, tag) for tag in reader.tags()["scalar"]} == {
            "just wide": [(1, 2.0**63)],
            "lowest": [(1, -(2.0**63))],
            "wide": [(1, -(2.0**70))],
            "widest": [(1, float("inf"))],  # a summary file holds 32 bits
            "yes": [(1, 1.0)],
        }
        assert {
            tag: next(iter(reader.tensors(tag)))[2].data.tolist() for tag in reader.tags()["tensor"]
        } == {"empty": [], "numbers": [[1, 2, 3], [4, 5, 6]], "tensors": [[1, 3], [2, 4]]}

    kinds = ("a list that is not an array", "a ragged list, or one of objects")
    assert [kind for kind in kinds if any(kind in text for text in caplog.messages)] == [*kinds]
    assert sum("is too large for a float" in text for text in caplog.messages) == 2


def test_of_two_values_under_one_name_the_newest_is_recorded_and_it_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def probe(module: Any, x: Tensor) -> None:
        scalar_summary("twice", 1.0)
        scalar_summary("twice", 2.0)

    _fit(tmp_path, OperatorNet(nn.Identity(), probe))

    assert points(tmp_path, "twice") == [(step, 2.0) for step in (1, 2, 4, 6)]
    assert sum("was recorded twice in one step" in record.message for record in caplog.records) == 1


def test_the_same_name_may_stand_for_two_kinds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def probe(module: Any, x: Tensor) -> None:
        tensor_summary("x", x)
        histogram_summary("x", x)

    _fit(tmp_path, OperatorNet(nn.Identity(), probe))

    assert steps(tmp_path, "x", "tensor") == steps(tmp_path, "x", "histogram")
    assert not [
        record for record in caplog.records if "was recorded twice in one step" in record.message
    ]


def test_nothing_is_recorded_in_evaluation(tmp_path: Path) -> None:
    class Evaluating(OperatorNet):
        def validation_step(
            self, batch: list[Tensor], batch_idx: int, dataloader_idx: int = 0
        ) -> None:
            scalar_summary("validation", 1.0)
            self(batch[0] + 100)

    collector = SummaryCollector(tmp_path, 1, **_NOTHING_ELSE)
    running = trainer(
        logger=False, callbacks=[collector], val_check_interval=1, num_sanity_val_steps=1
    )
    running.fit(Evaluating(), loader(), loader(1))

    assert SummaryReader(tmp_path).tags()["scalar"] == ["mean"]
    assert max(value for _, value in points(tmp_path, "mean")) < 50


def test_a_module_in_eval_mode_is_silent_in_training(tmp_path: Path) -> None:
    class Frozen(OperatorNet):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            self.nested.eval()

    _fit(tmp_path, Frozen())

    assert not list(tmp_path.rglob("*_MS"))


def test_nothing_is_copied_on_a_step_that_is_not_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    original = operator_buffer.OperatorBuffer.put

    def put(self: Any, plugin: str, name: str, *arguments: Any) -> None:
        given.append(name)
        original(self, plugin, name, *arguments)

    monkeypatch.setattr(operator_buffer.OperatorBuffer, "put", put)
    _fit(tmp_path, OperatorNet(), freq=4)

    # steps 1, 4 and the last
    assert sorted(given) == sorted(["mean", "values", "picture", "spread"] * 3)


def test_operators_outside_of_any_training_do_nothing() -> None:
    Recording()(torch.ones(4, 4))
    scalar_summary("alone", object())

    assert not operator_buffer.is_open


def test_operators_are_closed_when_an_exception_ends_the_training(tmp_path: Path) -> None:
    def probe(module: Any, x: Tensor) -> None:
        assert operator_buffer.is_open
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        _fit(tmp_path, OperatorNet(nn.Identity(), probe))

    assert not operator_buffer.is_open


def test_values_of_accumulated_batches_are_the_last_ones_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _fit(tmp_path, OperatorNet(), freq=1, accumulate_grad_batches=3)

    expected = [(step, pytest.approx(_means()[3 * step - 1], rel=1e-6)) for step in (1, 2)]
    assert points(tmp_path, "mean") == expected
    assert not [
        record for record in caplog.records if "was recorded twice in one step" in record.message
    ]


def test_an_operator_value_that_cannot_be_recorded_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def probe(module: Any, x: Tensor) -> None:
        scalar_summary("odd", x)
        image_summary("flat", x)
        scalar_summary("good", 1.0)

    _fit(tmp_path, OperatorNet(nn.Identity(), probe), freq=1)

    assert SummaryReader(tmp_path).tags()["scalar"] == ["good"]
    for name in ("odd", "flat"):
        assert (
            sum(record.message.startswith(f"{name} is not recorded") for record in caplog.records)
            == 1
        )


_WRONG_NAMES: list[tuple[Any, type[Exception], str]] = [
    (5, TypeError, "name must be a str, not 5"),
    (None, TypeError, "name must be a str, not None"),
    (("a", 1), TypeError, r"name must be a str, not \('a', 1\)"),
    (b"a", TypeError, "name must be a str, not b'a'"),
    ("", ValueError, "name must not be empty"),
]


@pytest.mark.parametrize(
    ("name", "error", "message"), _WRONG_NAMES, ids=[repr(name) for name, *_ in _WRONG_NAMES]
)
def test_a_wrong_tag_raises_at_the_call_and_nothing_is_kept(
    tmp_path: Path, name: Any, error: type[Exception], message: str
) -> None:
    torch._dynamo.reset()
    with SummaryRecord(tmp_path) as record:
        scalar_summary("good", 1.0)
        with pytest.raises(error, match=f"^{message}$"):
            torch.compile(lambda x: scalar_summary(name, x) or x, backend="eager")(torch.ones(()))
        for operator in (
            scalar_summary,
            tensor_summary,
            image_summary,
            histogram_summary,
            ScalarSummary(),
        ):
            with pytest.raises(error, match=message):
                operator(name, torch.ones(()))
        assert record.record(1)

    assert SummaryReader(tmp_path).tags()["scalar"] == ["good"]


def test_a_lone_surrogate_in_a_tag_is_escaped_and_costs_no_other_value(tmp_path: Path) -> None:
    class Surrogate(OperatorNet):
        def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
            scalar_summary("a\ud800", 2.0)
            return super().training_step(batch, batch_idx)

    _fit(tmp_path / "fit", Surrogate())
    with SummaryRecord(tmp_path / "loop") as record:
        torch.compile(lambda x: scalar_summary("a\ud800", x) or x, backend="eager", fullgraph=True)(
            torch.ones(())
        )
        scalar_summary("good", 1.0)
        assert record.record(1)

    assert SummaryReader(tmp_path / "fit").tags()["scalar"] == ["a\\ud800", "mean"]
    assert SummaryReader(tmp_path / "loop").tags()["scalar"] == ["a\\ud800", "good"]


@pytest.mark.parametrize(
    "make",
    [lambda: np.ones(3), lambda: [1.0, 1.0, 1.0], lambda: torch.ones(3), lambda: [np.ones(3)]],
    ids=["array", "list", "tensor", "list of arrays"],
)
def test_the_value_is_that_of_the_call_whatever_it_is_made_of(
    tmp_path: Path, make: Callable[[], Any]
) -> None:
    value = make()
    with SummaryRecord(tmp_path) as record:
        tensor_summary("t", value)
        histogram_summary("h", value)
        scalar_summary("s", value[0][:1] if isinstance(value[0], np.ndarray) else value[:1])
        value[0] = 5 * value[0]
        record.record(1)

    reader = SummaryReader(tmp_path)
    [(_, _, tensor)], [(_, _, histogram)] = reader.tensors("t"), reader.histograms("h")
    assert float(tensor.data.max()) == histogram.max == 1
    assert points(tmp_path, "s") == [(1, 1.0)]


def test_what_is_given_in_a_backward_pass_is_recorded(tmp_path: Path) -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
            scalar_summary("function", gradient.abs().max())
            return 2 * gradient

    def probe(module: Any, x: Tensor) -> None:
        if not hasattr(module, "is_hooked"):
            module.is_hooked = True
            module.second.register_full_backward_hook(lambda *_: scalar_summary("module", 1.0))

    class Hooked(OperatorNet):
        def forward(self, x: Tensor) -> Tensor:
            hidden = Doubled.apply(x.requires_grad_())
            hidden.register_hook(lambda gradient: scalar_summary("tensor", gradient.abs().max()))
            return super().forward(hidden)

    _fit(tmp_path, Hooked(nn.Identity(), probe), freq=1)

    for tag in ("function", "module", "tensor"):
        assert steps(tmp_path, tag) == [1, 2, 3, 4, 5, 6]


def _thread(*actions: Callable[[], object]) -> None:
    """Each in a thread of its own, at the same time."""
    threads = [threading.Thread(target=action) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_two_trainings_in_threads_record_their_own_values(tmp_path: Path) -> None:
    meeting = threading.Barrier(2, timeout=60)

    class Numbered(OperatorNet):
        def __init__(self, number: int) -> None:
            super().__init__(nn.Identity())
            self.number = number

        def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
            meeting.wait()
            for count in range(20):
                scalar_summary(f"{count}", float(self.number))
            meeting.wait()
            return super().training_step(batch, batch_idx)

    _thread(
        *(
            partial(_fit, tmp_path / str(number), Numbered(number), freq=1 + number)
            for number in (0, 1)
        )
    )

    assert points(tmp_path / "0", "7") == [(step, 0.0) for step in range(1, 7)]
    assert points(tmp_path / "1", "7") == [(step, 1.0) for step in (1, 2, 4, 6)]


def test_two_loops_in_threads_record_their_own_values(tmp_path: Path) -> None:
    meeting = threading.Barrier(2, timeout=60)

    def loop(number: int) -> None:
        with SummaryRecord(tmp_path / str(number)) as record:
            for step in range(1, 11):
                meeting.wait()
                scalar_summary("number", float(number))
                meeting.wait()
                record.record(step)

    _thread(partial(loop, 0), partial(loop, 1))

    for number in (0, 1):
        assert points(tmp_path / str(number), "number") == [
            (step, float(number)) for step in range(1, 11)
        ]


def test_a_thread_that_a_training_starts_gives_to_it_and_one_from_before_to_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with futures.ThreadPoolExecutor(1) as before:
        before.submit(int).result()

        class Threads(OperatorNet):
            def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
                _thread(lambda: scalar_summary("started", 1.0))
                before.submit(scalar_summary, "from before", 1.0).result()
                before.submit(
                    contextvars.copy_context().run, scalar_summary, "in its context", 1.0
                ).result()
                return super().training_step(batch, batch_idx)

        _fit(tmp_path, Threads(nn.Identity()), freq=1)

    assert SummaryReader(tmp_path).tags()["scalar"] == ["in its context", "started"]
    lines = [
        record.getMessage() for record in caplog.records if "is unknown" in record.getMessage()
    ]
    assert len(lines) == 1
    assert lines[0].startswith("scalar 'from before' is not recorded, because the thread")
    assert "the thread 'ThreadPoolExecutor" in lines[0]


def test_of_two_trainings_a_thread_without_context_gives_to_neither(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = operator_buffer.OperatorBuffer()
    _thread(lambda: operator_buffer.open_for(other))

    class Threads(OperatorNet):
        def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
            _thread(lambda: scalar_summary("whose", 1.0))
            scalar_summary("mine", 1.0)
            return super().training_step(batch, batch_idx)

    try:
        _fit(tmp_path, Threads(nn.Identity()))
    finally:
        operator_buffer.end_training(other)

    assert SummaryReader(tmp_path).tags()["scalar"] == ["mine"]
    assert not other.take()
    assert sum("is unknown" in record.getMessage() for record in caplog.records) == 1


@pytest.fixture
def of_another_thread() -> Iterator[operator_buffer.OperatorBuffer]:
    """A training of another thread, so that a value is of whom its own thread and context say."""
    buffer = operator_buffer.OperatorBuffer()
    _thread(lambda: operator_buffer.open_for(buffer))
    yield buffer
    operator_buffer.end_training(buffer)
    assert not operator_buffer.is_open


def _names(buffer: operator_buffer.OperatorBuffer) -> list[str]:
    return [name for _, name, _ in buffer.take()]


@pytest.mark.usefixtures("of_another_thread")
def test_a_training_within_a_training_has_its_own_values_and_gives_way_to_the_outer() -> None:
    outer, inner = operator_buffer.OperatorBuffer(), operator_buffer.OperatorBuffer()
    operator_buffer.open_for(outer)
    scalar_summary("before", 1.0)
    operator_buffer.open_for(inner)
    scalar_summary("within", 1.0)
    operator_buffer.end_training(inner)
    scalar_summary("after", 1.0)
    operator_buffer.end_training(outer)
    scalar_summary("late", 1.0)

    assert (_names(outer), _names(inner)) == (["before", "after"], ["within"])


@pytest.mark.usefixtures("of_another_thread")
def test_the_end_of_an_outer_training_takes_nothing_from_the_one_that_runs() -> None:
    outer, inner = operator_buffer.OperatorBuffer(), operator_buffer.OperatorBuffer()
    operator_buffer.open_for(outer)
    operator_buffer.open_for(inner)
    operator_buffer.end_training(outer)
    scalar_summary("within", 1.0)
    operator_buffer.end_training(inner)

    assert (_names(outer), _names(inner)) == ([], ["within"])


def test_a_started_thread_gives_to_the_innermost_of_two_trainings() -> None:
    outer, inner = operator_buffer.OperatorBuffer(), operator_buffer.OperatorBuffer()
    operator_buffer.open_for(outer)
    operator_buffer.open_for(inner)
    _thread(lambda: scalar_summary("started", 1.0))
    operator_buffer.end_training(inner)
    operator_buffer.end_training(outer)

    assert (_names(outer), _names(inner)) == ([], ["started"])


def test_a_record_has_the_values_of_a_training_that_has_collected_nothing_yet(
    tmp_path: Path,
) -> None:
    waiting = operator_buffer.OperatorBuffer()
    operator_buffer.begin_training(waiting)
    with SummaryRecord(tmp_path) as record:
        scalar_summary("own", 1.0)
        record.record(1)
    operator_buffer.end_training(waiting)

    assert (_names(waiting), points(tmp_path, "own")) == ([], [(1, 1.0)])


def test_a_record_that_listens_again_knows_the_threads_since_it_began(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path) as record, futures.ThreadPoolExecutor(1) as started:
        started.submit(int).result()
        for mode in ("train", "eval", "train"):
            record.set_mode(mode)  # type: ignore[arg-type]
            scalar_summary(f"in {mode}", 1.0)
            started.submit(scalar_summary, f"{mode} of a thread", 2.0).result()
        record.record(1)

    assert SummaryReader(tmp_path).tags()["scalar"] == ["in train", "train of a thread"]
    assert not operator_buffer.is_open


@pytest.mark.parametrize(("trainings", "recorded"), [(1, ["hook"]), (2, [])])
def test_a_backward_pass_in_an_older_thread_without_context_gives_to_the_only_training(
    trainings: int, recorded: list[str]
) -> None:
    # As the threads in which torch runs the backward pass of a device, which outlive a training.
    buffers = [operator_buffer.OperatorBuffer() for _ in range(trainings)]
    with futures.ThreadPoolExecutor(1) as older:
        older.submit(int).result()
        for buffer in buffers:
            _thread(lambda buffer=buffer: operator_buffer.open_for(buffer))  # type: ignore[misc]
        weight = torch.ones(2, requires_grad=True)
        weight.register_hook(lambda gradient: scalar_summary("hook", gradient.sum()))
        older.submit(weight.sum().backward).result()
        older.submit(scalar_summary, "forward", 1.0).result()
    for buffer in buffers:
        operator_buffer.end_training(buffer)

    assert [name for buffer in buffers for _, name, _ in buffer.take()] == recorded


def test_a_value_that_nobody_takes_is_said_once_for_who_looks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(operator_buffer, "is_listening", True)
    with caplog.at_level("DEBUG", "mindsummary_lightning"):
        for _ in range(3):
            scalar_summary("unheard", 1.0)

    [line] = caplog.messages
    assert line.startswith(
        "scalar 'unheard' is not recorded: no SummaryCollector collects this step"
    )
    assert not operator_buffer.is_listening


def test_what_a_forked_process_gives_is_nobodys(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path) as record:
        process = multiprocessing.get_context("fork").Process(
            target=scalar_summary, args=("of the child", 1.0)
        )
        process.start()
        process.join()
        scalar_summary("of the parent", 1.0)
        record.record(1)

    assert (process.exitcode, SummaryReader(tmp_path).tags()["scalar"]) == (0, ["of the parent"])


def test_a_value_that_cannot_be_copied_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: Any) -> None:
        raise torch.OutOfMemoryError("no memory on the device")

    with SummaryRecord(tmp_path) as record:
        with monkeypatch.context() as patch:
            patch.setattr(torch.Tensor, "clone", refused)
            tensor_summary("large", torch.ones(3))
        scalar_summary("small", 1.0)
        record.record(1)

    assert SummaryReader(tmp_path).tags()["scalar"] == ["small"]
    assert caplog.messages == [
        (
            "tensor 'large' is not recorded, because its value cannot be copied: "
            "no memory on the device"
        )
    ]


_HOOKS = (
    *(
        "on_train_start",
        "on_train_epoch_start",
        "on_train_batch_start",
        "on_before_zero_grad",
        "on_before_backward",
    ),
    *(
        "on_after_backward",
        "on_before_optimizer_step",
        "on_train_batch_end",
        "on_train_epoch_end",
        "on_train_end",
    ),
    "on_validation_batch_end",
)
_MODULE_ONLY = ("on_after_batch_transfer", "optimizer_step", "lr_scheduler_step", "validation_step")
_HEARD = {
    "module": {
        *("on_train_batch_start", "on_before_zero_grad", "on_before_backward", "on_after_backward"),
        *("on_before_optimizer_step", "optimizer_step", "lr_scheduler_step"),
    },
    "callback before": {
        *(
            "on_before_zero_grad",
            "on_before_backward",
            "on_after_backward",
            "on_before_optimizer_step",
        ),
        "on_train_batch_end",
    },
    "callback after": {
        *("on_train_batch_start", "on_before_zero_grad", "on_before_backward", "on_after_backward"),
        "on_before_optimizer_step",
    },
}


def _speaking(kind: type, who: str, hooks: tuple[str, ...]) -> Any:
    """A class whose hooks give a value under their own names."""

    def hook(name: str) -> Callable[..., object]:
        own = getattr(kind, name, None)

        def call(self: Any, *arguments: Any, **keywords: Any) -> object:
            scalar_summary(f"{who}/{name}", 1.0)
            return None if own is None else own(self, *arguments, **keywords)

        return call

    return type("Speaking", (kind,), {name: hook(name) for name in hooks})


def test_where_an_operator_is_heard_is_what_the_guide_says(tmp_path: Path) -> None:
    class Scheduled(Net):
        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)
            return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

    net = _speaking(Scheduled, "module", (*_HOOKS, *_MODULE_ONLY))()
    before, after = (
        _speaking(Callback, f"callback {where}", tuple(_HOOKS))() for where in ("before", "after")
    )
    collector = SummaryCollector(tmp_path, 1, **_NOTHING_ELSE)
    trainer(logger=False, callbacks=[before, collector, after]).fit(net, loader(), loader(1))

    heard = SummaryReader(tmp_path).tags()["scalar"]
    assert {
        who: {tag.partition("/")[2] for tag in heard if tag.startswith(who)} for who in _HEARD
    } == _HEARD


def test_a_scripted_model_is_compiled_saved_and_run_without_its_operators(tmp_path: Path) -> None:
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scalar, self.tensor = ScalarSummary(), TensorSummary()
            self.image, self.histogram = ImageSummary(), HistogramSummary()

        def forward(self, x: Tensor) -> Tensor:
            self.scalar("a", x.mean())
            self.tensor("t", x)
            self.image("i", x)
            self.histogram("h", x)
            return x * 2

    with SummaryRecord(tmp_path / "run") as record:
        torch.jit.script(Small()).save(str(tmp_path / "saved.pt"))
        assert float(torch.jit.load(str(tmp_path / "saved.pt"))(torch.ones(1))) == 2
        assert record.record(1)

    assert not (tmp_path / "run").exists()


_NO_NUMBERS: list[Any] = [None, "", {}, [[1, 2], [3]], object()]
_NUMBERS = [2**70, True, 1.5]


@pytest.mark.parametrize(
    "way",
    [
        "eager",
        pytest.param("compiled", marks=pytest.mark.slow),
        pytest.param("fullgraph", marks=pytest.mark.slow),
    ],
)
def test_a_value_that_is_no_number_is_skipped_wherever_the_model_runs(
    tmp_path: Path, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    def step(x: Tensor, value: Any) -> Tensor:
        scalar_summary("part", value)
        return x * 2

    if way != "eager":
        torch._dynamo.reset()
        step = torch.compile(step, backend="aot_eager", fullgraph=way == "fullgraph")
    values = (
        [0.5, *_NO_NUMBERS, *_NUMBERS] if way == "eager" else [0.5, *_NO_NUMBERS[:-1], *_NUMBERS]
    )
    with SummaryRecord(tmp_path) as record:
        answers = []
        for number, value in enumerate(values):
            step(torch.ones(2), value)
            answers.append(record.record(number))

    expected = [isinstance(value, (int, float)) for value in values]
    assert answers == expected  # True only if everything is in the files
    assert points(tmp_path, "part") == [
        (number, float(value)) for number, value in enumerate(values) if expected[number]
    ]
    (warning,) = [text for text in caplog.messages if "skipped" in text]
    assert "scalar 'part' is skipped: expected a number" in warning


@pytest.mark.parametrize("is_compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_is_read_of_a_tensor_does_not_depend_on_where_the_model_runs(
    tmp_path: Path, is_compiled: bool
) -> None:
    weight = torch.arange(6.0, requires_grad=True)

    def step(x: Tensor) -> Tensor:
        tensor_summary("view", weight.view(2, 3)[1])
        tensor_summary("list", [weight[:2], weight[2:4]])  # type: ignore[arg-type]
        tensor_summary("sparse", weight.detach().to_sparse())
        tensor_summary("expanded", x[:1].expand(3))
        tensor_summary("conjugate", torch.conj(x * 1j).imag)
        tensor_summary("no data", torch.empty(2, device="meta"))
        return x * weight.sum()

    torch._dynamo.reset()
    run = torch.compile(step, backend="aot_eager") if is_compiled else step
    with SummaryRecord(tmp_path) as record:
        run(torch.ones(2))
        assert not record.record(1)  # one tensor has no data

    reader = SummaryReader(tmp_path)
    found = {
        tag: next(iter(reader.tensors(tag)))[2].data.tolist() for tag in reader.tags()["tensor"]
    }
    assert found == {
        "view": [3, 4, 5], "list": [[0, 1], [2, 3]], "sparse": [0, 1, 2, 3, 4, 5], "expanded": [1,
        1, 1],
        "conjugate": [-1, -1],
    }  # fmt: skip


@pytest.mark.parametrize("is_compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("raises", [False, True])
def test_a_part_of_the_loss_that_turns_none_ends_a_training_only_if_asked_to(
    tmp_path: Path, is_compiled: bool, raises: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Parts(Net):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            self.note(batch[0].mean(), None if batch_idx == 2 else 0.5)
            return super().training_step(batch, batch_idx)

        def note(self, x: Tensor, part: Any) -> Tensor:
            scalar_summary("part", part)
            return x * 2

    torch._dynamo.reset()
    net = Parts()
    if is_compiled:
        net.note = torch.compile(net.note, backend="aot_eager", fullgraph=True)  # type: ignore[method-assign]
    logger = MindInsightLogger(tmp_path, name="", version="run", raise_exception=raises)
    running = trainer(
        logger=logger, callbacks=[SummaryCollector(collect_freq=1)], limit_train_batches=4
    )
    if raises:
        with pytest.raises(TypeError, match="part: expected a number"):
            running.fit(net, loader())
    else:
        running.fit(net, loader())

    assert steps(tmp_path / "run", "part") == ([1, 2] if raises else [1, 2, 4])
    assert (
        len(
            [
                text
                for text in caplog.messages
                if text.startswith("part is not recorded: expected a number")
            ]
        )
        == 1
    )
