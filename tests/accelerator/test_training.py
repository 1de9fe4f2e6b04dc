"""Trainings on the stand-in with the logger and the collector: the cost of each hook, and what is
recorded.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import (
    MindInsightLogger,
    SummaryCollector,
    SummaryReader,
    histogram_summary,
    scalar_summary,
)
from mindsummary_lightning.cli import main
from mindsummary_lightning.collection.step_values import StepValues
from mindsummary_lightning.trainer import device_proof
from tests.accelerator import npu
from tests.accelerator.lightning_accelerator import StandInAccelerator

HOOKS = ("on_train_batch_start", "on_before_optimizer_step", "on_train_batch_end", "on_train_end")
STEPS = 12


class Net(L.LightningModule):
    """A convolution and a linear layer with summary operators, large enough for histograms to be
    reduced.
    """

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 8, 3)
        self.linear = nn.Linear(8 * 6 * 6, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.convolution(images).relu()
        histogram_summary("features", features)
        scalar_summary("largest", features.amax())
        return self.linear(features.flatten(1))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters())


class Meter:
    """What the device was asked for inside each hook of a callback, by hook and step."""

    def __init__(self, callback: L.Callback) -> None:
        self.costs: dict[tuple[str, int], Counter[str]] = {}
        for hook in HOOKS:
            setattr(callback, hook, self._metered(hook, getattr(callback, hook)))

    def _metered(self, hook: str, method: Any) -> Any:
        def run(trainer: Any, *args: Any) -> None:
            before = Counter(npu.counts())
            method(trainer, *args)
            step = trainer.global_step + (hook != "on_train_batch_end" and hook != "on_train_end")
            spent = Counter(npu.counts()) - before
            spent.pop("bytes_to_host", None)
            self.costs[hook, step] = spent

        return run

    def of_step(self, step: int) -> Counter[str]:
        return sum((self.costs.get((hook, step), Counter()) for hook in HOOKS), Counter())


def data(samples: int = 48) -> DataLoader:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(samples, 1, 8, 8, generator=generator)
    return DataLoader(TensorDataset(images, torch.arange(samples) % 10), 4)


def fit(
    folder: Path,
    collector: SummaryCollector,
    device: str = "npu:0",
    net: type = Net,
    **options: Any,
) -> MindInsightLogger:
    L.seed_everything(0, verbose=False)
    logger = MindInsightLogger(folder)
    # Lightning chooses the CPU for one device of an accelerator that it does not know
    if device != "cpu":
        options = {
            "accelerator": StandInAccelerator(),
            "strategy": SingleDeviceStrategy(device),
            **options,
        }
    trainer = L.Trainer(
        max_steps=STEPS, devices=1, logger=logger, callbacks=[collector],
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        **options,
    )  # fmt: skip
    trainer.fit(net(), data())
    assert trainer.strategy.root_device == torch.device(device)
    return logger


def collector(**options: Any) -> SummaryCollector:
    options.setdefault("collect_freq", 5)
    options.setdefault("collect_gradients", True)
    options.setdefault("collect_parameter_statistics", True)
    options.setdefault("collect_parameter_updates", True)
    return SummaryCollector(
        collect_specified_data={
            "collect_graph": False,
            "collect_landscape": None,
            "histogram_regular": ".*",
        },
        **options,
    )


def recorded(logger: MindInsightLogger) -> dict[tuple[str, str, int], Any]:
    reader = SummaryReader(logger.log_dir)
    tags = reader.tags()
    found: dict[tuple[str, str, int], Any] = {}
    for tag in tags.get("scalar", []):
        series = reader.scalars(tag)
        found.update(
            (("scalar", tag, step), value)
            for step, value in zip(series.steps, series.values, strict=True)
        )
    for kind in ("histogram", "image", "tensor"):
        for tag in tags.get(kind, []):
            found.update(
                ((kind, tag, step), value) for step, _, value in getattr(reader, f"{kind}s")(tag)
            )
    return found


def test_steps_that_are_not_collected_cost_the_device_nothing(
    tmp_path: Path, report: Callable[[str], None]
) -> None:
    callback = collector()
    meter = Meter(callback)
    fit(tmp_path, callback)
    collected = {1, 5, 10}
    for step in range(1, STEPS + 1):
        report(
            f"step {step:2}: "
            + (", ".join(f"{what} {n}" for what, n in meter.of_step(step).items()) or "nothing")
        )
    assert {
        step: cost
        for step in range(1, STEPS)
        if step not in collected and (cost := meter.of_step(step))
    } == {}
    for step in collected:
        assert meter.of_step(step) == {
            "copies_to_host": 1,
            "events_recorded": 1,
            "events_queried": 1,
            "events_waited": 1,
        }


def test_no_hook_waits_for_a_device_that_is_behind(tmp_path: Path) -> None:
    callback = collector(collect_freq=STEPS)
    meter = Meter(callback)
    with npu.delayed():
        logger = fit(tmp_path, callback)
    for (hook, step), cost in meter.costs.items():
        if hook != "on_train_end":
            assert not {
                "reads",
                "blocking_copies_to_host",
                "events_waited",
                "devices_synchronized",
            } & set(cost), (
                hook,
                step,
            )
    assert meter.costs["on_train_end", STEPS]["events_waited"] == 2
    assert {step for kind, _, step in recorded(logger) if kind == "histogram"} == {1, STEPS}


def test_steps_whose_landscape_checkpoints_are_written_later_do_not_wait(tmp_path: Path) -> None:
    landscape = {"intervals": [[1, 2, 3, 4, 5]]}
    callback = SummaryCollector(
        collect_freq=100, collect_specified_data={"collect_landscape": landscape}
    )
    meter = Meter(callback)
    logger = fit(tmp_path, callback)

    for step in (2, 3, 4):
        assert "blocking_copies_to_host" not in meter.of_step(step)
    assert meter.of_step(5)["blocking_copies_to_host"] > 0
    saved = torch.load(
        next(Path(logger.log_dir).rglob("*_3_step.ckpt")), map_location="cpu", weights_only=True
    )
    assert {tensor.device.type for tensor in saved.values()} == {"cpu"}


def test_values_in_flight_are_bounded(tmp_path: Path) -> None:
    callback = collector(collect_freq=1)
    meter = Meter(callback)
    with npu.delayed():
        fit(tmp_path, callback)
    waits = sum(
        cost["events_waited"]
        for (hook, _), cost in meter.costs.items()
        if hook == "on_train_batch_end"
    )
    assert waits == STEPS - 2  # all but two steps were waited for before the end


@pytest.fixture(scope="module")
def cpu_run(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    return recorded(fit(tmp_path_factory.mktemp("cpu"), collector(), device="cpu"))


def assert_recorded_alike(found: dict[Any, Any], expected: dict[Any, Any]) -> None:
    assert found.keys() == expected.keys()
    for key, value in found.items():
        kind = key[0]
        if kind == "scalar":
            assert value == pytest.approx(expected[key], rel=1e-6), key
        elif kind == "image" and key[1].startswith("parameter_statistics"):
            # colours may be rounded
            assert (value.height, value.width) == (expected[key].height, expected[key].width)
        elif kind == "image":
            assert value == expected[key], key
        elif kind == "tensor":
            np.testing.assert_allclose(
                value.data, expected[key].data, rtol=1e-5, atol=1e-5, err_msg=str(key)
            )
        else:
            np.testing.assert_allclose(
                value.lefts, expected[key].lefts, rtol=1e-5, atol=1e-6, err_msg=str(key)
            )
            assert sum(value.counts) == sum(expected[key].counts)


@pytest.mark.parametrize("is_delayed", [False, True])
def test_the_run_is_the_one_of_the_cpu(
    tmp_path: Path, cpu_run: dict[Any, Any], is_delayed: bool
) -> None:
    if is_delayed:
        with npu.delayed():
            found = recorded(fit(tmp_path, collector()))
    else:
        found = recorded(fit(tmp_path, collector()))
    assert_recorded_alike(found, cpu_run)


@pytest.mark.parametrize("missing", ["pinned", "events", "float64", "bfloat16"])
def test_a_device_with_a_missing_ability_is_recorded(
    tmp_path: Path, cpu_run: dict[Any, Any], missing: str
) -> None:
    npu.lack(missing)
    assert_recorded_alike(recorded(fit(tmp_path, collector())), cpu_run)


def test_a_second_device_can_be_chosen_by_a_strategy(
    tmp_path: Path, cpu_run: dict[Any, Any]
) -> None:
    assert_recorded_alike(recorded(fit(tmp_path, collector(), device="npu:1")), cpu_run)


def test_hooks_of_a_backward_pass_that_the_device_runs_in_a_thread_of_its_own_are_recorded(
    tmp_path: Path,
) -> None:
    threads: set[int] = set()

    class Hooked(Net):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            images = images.requires_grad_()
            images.register_hook(self.given)
            return super().forward(images)

        def given(self, gradient: torch.Tensor) -> None:
            threads.add(threading.get_ident())
            scalar_summary("hook", gradient.abs().amax())

    for number in (1, 2):  # torch's thread outlives the first training
        logger = fit(tmp_path / str(number), collector(), net=Hooked)
        assert {step for _, tag, step in recorded(logger) if tag == "hook"} == {1, 5, 10, STEPS}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_deterministic_mode_records_the_same(tmp_path: Path, cpu_run: dict[Any, Any]) -> None:
    try:
        assert_recorded_alike(recorded(fit(tmp_path, collector(), deterministic=True)), cpu_run)
    finally:
        torch.use_deterministic_algorithms(False)


def test_lineage_names_the_accelerator_and_the_number_of_devices(tmp_path: Path) -> None:
    lineage = SummaryReader(fit(tmp_path, collector()).log_dir).lineage()
    assert lineage.train.device_num == 1
    assert lineage.custom.values["accelerator"] == "npu"


@pytest.mark.parametrize("breaks", ["", "copies", "waits", "values"])
def test_doctor_finds_what_the_device_was_asked_for(
    breaks: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    send, add = StepValues.send, StepValues.add_histogram

    def broken(values: StepValues) -> None:
        send(values)
        if breaks == "copies":
            torch.ones(3, device="npu").to("cpu", non_blocking=True)
        elif breaks == "waits":
            torch.ones((), device="npu").item()

    if breaks == "values":

        def on_cpu(values, tag, tensor):
            return tensor.device.type == "cpu" and add(values, tag, tensor)

        monkeypatch.setattr(StepValues, "add_histogram", on_cpu)
    elif breaks:
        monkeypatch.setattr(StepValues, "send", broken)
    npu.reset()
    code = main(["doctor", "--device", "npu", "--json"])
    found = {need["name"]: need for need in json.loads(capsys.readouterr().out)["needs"]}
    assert found["device"]["state"].startswith("npu:0, ")
    assert {name for name, need in found.items() if not need["is_met"]} == (
        {breaks} if breaks else set()
    )
    assert code == bool(breaks)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_its_counts_are_those_of_the_device(tmp_path: Path, is_recorded: bool) -> None:
    npu.reset()
    _, asked = device_proof._fit(
        device_proof._accelerator("npu"), str(tmp_path) if is_recorded else ""
    )
    counts = npu.counts()
    blocking = counts.get("blocking_copies_to_host", 0)
    assert asked.copies == blocking + counts.get("copies_to_host", 0) > 0
    assert asked.waits == blocking + counts["reads"]
    assert asked.events == counts.get("events_waited", 0)
