"""The summary operators wherever a model may run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mindsummary_lightning import (
    HistogramSummary,
    ImageSummary,
    ScalarSummary,
    SummaryCollector,
    SummaryReader,
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
    def __init__(self, layer: nn.Module | None = None, probe: Callable[..., object] | None = None) -> None:
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
    assert steps(tmp_path, "values", "tensor") == steps(tmp_path, "spread", "histogram") == [1, 2, 4, 6]


def test_functions_record_as_modules_do(tmp_path: Path) -> None:
    def probe(module: Any, x: Tensor) -> None:
        scalar_summary("mean", x.mean())
        tensor_summary("values", x)
        image_summary("picture", x.reshape(1, 1, 4, -1))
        histogram_summary("spread", x)
        scalar_summary("number", 3)

    _fit(tmp_path, OperatorNet(nn.Identity(), probe))

    tags = SummaryReader(tmp_path).tags()
    assert (tags["scalar"], tags["tensor"], tags["image"]) == (["mean", "number"], ["values"], ["picture"])
    assert tags["histogram"] == ["spread"]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_recomputed_forward_pass_is_recorded_once(
    tmp_path: Path, use_reentrant: bool, caplog: pytest.LogCaptureFixture
) -> None:
    passes: list[int] = []

    class Recomputed(OperatorNet):
        def forward(self, x: Tensor) -> Tensor:
            return self.second(checkpoint(self._inner, x.requires_grad_(), use_reentrant=use_reentrant))  # type: ignore[no-any-return]

        def _inner(self, x: Tensor) -> Tensor:
            passes.append(1)
            hidden = self.first(self.nested(x)).relu()
            scalar_summary("pass", float(len(passes)))
            return hidden

    _fit(tmp_path, Recomputed(), freq=1)

    assert len(passes) == 12
    assert points(tmp_path, "pass") == [(step, 2.0 * step - 1) for step in range(1, 7)]
    assert not [record for record in caplog.records if "was given twice in one step" in record.message]


def test_values_of_half_precision_are_recorded(tmp_path: Path) -> None:
    def probe(module: Any, x: Tensor) -> None:
        hidden = module.first(x)
        assert hidden.dtype is torch.bfloat16
        tensor_summary("hidden", hidden)
        scalar_summary("mean", hidden.mean())

    _fit(tmp_path, OperatorNet(nn.Identity(), probe), precision="bf16-mixed")

    assert steps(tmp_path, "hidden", "tensor") == steps(tmp_path, "mean") == [1, 2, 4, 6]


def test_of_two_values_under_one_name_the_newest_is_recorded_and_it_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def probe(module: Any, x: Tensor) -> None:
        scalar_summary("twice", 1.0)
        scalar_summary("twice", 2.0)

    _fit(tmp_path, OperatorNet(nn.Identity(), probe))

    assert points(tmp_path, "twice") == [(step, 2.0) for step in (1, 2, 4, 6)]
    assert sum("was given twice in one step" in record.message for record in caplog.records) == 1


def test_the_same_name_may_stand_for_two_kinds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def probe(module: Any, x: Tensor) -> None:
        tensor_summary("x", x)
        histogram_summary("x", x)

    _fit(tmp_path, OperatorNet(nn.Identity(), probe))

    assert steps(tmp_path, "x", "tensor") == steps(tmp_path, "x", "histogram")
    assert not [record for record in caplog.records if "was given twice in one step" in record.message]


def test_nothing_is_recorded_in_evaluation(tmp_path: Path) -> None:
    class Evaluating(OperatorNet):
        def validation_step(self, batch: list[Tensor], batch_idx: int, dataloader_idx: int = 0) -> None:
            scalar_summary("validation", 1.0)
            self(batch[0] + 100)

    collector = SummaryCollector(tmp_path, 1, **_NOTHING_ELSE)
    running = trainer(logger=False, callbacks=[collector], val_check_interval=1, num_sanity_val_steps=1)
    running.fit(Evaluating(), loader(), loader(1))

    assert SummaryReader(tmp_path).tags()["scalar"] == ["mean"]
    assert max(value for _, value in points(tmp_path, "mean")) < 50


def test_a_module_in_eval_mode_is_silent_in_training(tmp_path: Path) -> None:
    class Frozen(OperatorNet):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            self.nested.eval()

    _fit(tmp_path, Frozen())

    assert not list(tmp_path.rglob("*_MS"))


def test_a_value_is_copied_when_it_is_given(tmp_path: Path) -> None:
    def probe(module: Any, x: Tensor) -> None:
        value = torch.ones(3)
        tensor_summary("value", value)
        value.zero_()

    _fit(tmp_path, OperatorNet(nn.Identity(), probe))

    for _, _, value in SummaryReader(tmp_path).tensors("value"):
        assert value.data.tolist() == [1, 1, 1]


def test_nothing_is_copied_on_a_step_that_is_not_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    original = operator_buffer.OperatorBuffer.put

    def put(self: Any, plugin: str, name: str, value: Any) -> None:
        given.append(name)
        original(self, plugin, name, value)

    monkeypatch.setattr(operator_buffer.OperatorBuffer, "put", put)
    _fit(tmp_path, OperatorNet(), freq=4)

    assert sorted(given) == sorted(["mean", "values", "picture", "spread"] * 3)  # steps 1, 4 and the last


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
    assert not [record for record in caplog.records if "was given twice in one step" in record.message]


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
        assert sum(record.message.startswith(f"{name} is not recorded") for record in caplog.records) == 1
