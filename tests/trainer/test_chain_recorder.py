"""The output statistics of the steps that are asked for, in the hooks of a fit."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision
from torch import Tensor, nn

from mindsummary_lightning import SummaryCollector, SummaryReader
from mindsummary_lightning.fileformat.output_rows import OUTPUT_ROWS_FILE
from mindsummary_lightning.fileio.whole_step_file import WholeStepReader, whole_step_path
from tests.trainer.support import Net, files, loader, trainer

_METHODS = ("training_step", "configure_gradient_clipping")


class Unused(Net):
    """Has a layer that no step uses; notes its weights before each step, and their gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(2, 2)
        self.seen: list[dict[str, Any]] = []

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self.seen.append({"weight": float(self.first.weight.abs().max())})

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        self.seen[-1]["gradients"] = {
            name: float(parameter.grad.norm())
            for name, parameter in self.named_parameters()
            if parameter.grad is not None
        }

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        self.seen[-1]["methods"] = [name for name in _METHODS if name in vars(self)]
        loss = super().training_step(batch, batch_idx)
        self.seen[-1]["loss"] = float(loss)
        return loss


@pytest.fixture(scope="module")
def clipped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Unused, Any]:
    """Six steps with clipped gradients, of which the second and the fifth are recorded."""
    net, run = Unused(), tmp_path_factory.mktemp("clipped")
    collector = SummaryCollector(run, collect_output_statistics=(2, 5))
    trainer(logger=False, callbacks=[collector], gradient_clip_val=1e-3).fit(net, loader())
    return net, SummaryReader(run).output_statistics()


def _rows(table: Any, step: int, link: str) -> dict[str, dict[str, float]]:
    rows, values = table.rows_at(step)
    return {
        row.name: dict(zip(table.columns, each.tolist(), strict=True))
        for row, each in zip(rows, values, strict=True)
        if row.link == link
    }


def _norms(rows: dict[str, dict[str, float]]) -> dict[str, float]:
    return {name: row["rms"] * row["elements"] ** 0.5 for name, row in rows.items()}


def test_the_steps_that_are_asked_for_have_their_own_weights_and_losses(clipped: Any) -> None:
    net, table = clipped

    assert table.steps.tolist() == [2, 5]
    for step in (2, 5):
        weight = _rows(table, step, "weights")["first.weight"]
        largest = max(weight["maximum"], -weight["minimum"])
        assert largest == pytest.approx(net.seen[step - 1]["weight"])
        assert _rows(table, step, "loss")[""]["mean"] == pytest.approx(net.seen[step - 1]["loss"])


def test_the_methods_of_a_module_are_replaced_in_steps_that_are_recorded_alone(
    clipped: Any,
) -> None:
    net, _ = clipped

    assert [bool(seen["methods"]) for seen in net.seen] == [step in (2, 5) for step in range(1, 7)]
    assert [name for name in _METHODS if name in vars(net)] == []


def test_gradients_are_recorded_before_and_after_they_are_clipped(clipped: Any) -> None:
    net, table = clipped

    for step in (2, 5):
        before, gradients = _norms(_rows(table, step, "gradients")), net.seen[step - 1]["gradients"]
        whole = sum(norm**2 for norm in gradients.values()) ** 0.5
        assert before == pytest.approx(gradients, rel=1e-4)
        assert _norms(_rows(table, step, "clipped")) == pytest.approx(
            {name: norm * 1e-3 / whole for name, norm in gradients.items()}, rel=1e-2
        )


def test_gradients_that_are_not_clipped_are_recorded_once(tmp_path: Path) -> None:
    collector = SummaryCollector(tmp_path, collect_output_statistics=(1,))
    trainer(logger=False, callbacks=[collector], limit_train_batches=1).fit(Unused(), loader())

    table = SummaryReader(tmp_path).output_statistics()
    assert _rows(table, 1, "gradients")
    assert _rows(table, 1, "clipped") == {}


class TwoOptimizers(Net):
    """Steps an optimizer of two groups and one of a single group, and returns no loss."""

    automatic_optimization = False

    def training_step(self, batch: list[Tensor], batch_idx: int) -> None:  # type: ignore[override]
        self.loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.manual_backward(self.loss)
        for optimizer in self.optimizers():  # type: ignore[union-attr]
            optimizer.step()

    def configure_optimizers(self) -> Any:
        groups = [{"params": [self.first.weight]}, {"params": [self.first.bias], "lr": 0.2}]
        return (
            torch.optim.SGD(groups, lr=0.1),
            torch.optim.SGD(self.second.parameters(), lr=0.3),
        )


def test_the_groups_of_all_optimizers_are_numbered_and_a_loss_that_is_not_returned_is_recorded(
    tmp_path: Path,
) -> None:
    collector, net = SummaryCollector(tmp_path, collect_output_statistics=(1,)), TwoOptimizers()
    trainer(logger=False, callbacks=[collector], limit_train_batches=1).fit(net, loader())

    table = SummaryReader(tmp_path).output_statistics()
    assert table is not None
    rows, values = table.rows_at(1)
    mean = table.columns.index("mean")
    rates = {
        row.name: each[mean]
        for row, each in zip(rows, values, strict=True)
        if (row.link, row.port) == ("settings", "lr")
    }
    assert rates == pytest.approx({"group 0": 0.1, "group 1": 0.2, "group 2": 0.3})
    losses = [each[mean] for row, each in zip(rows, values, strict=True) if row.link == "loss"]
    assert losses == [pytest.approx(float(net.loss))]


class _Interrupted(Net):
    """Breaks off in the backward pass of the second step."""

    def on_after_backward(self) -> None:
        if self.global_step == 1:
            raise RuntimeError("mine")


def test_a_step_that_breaks_off_leaves_neither_a_file_nor_a_method(tmp_path: Path) -> None:
    net = _Interrupted()
    collector = SummaryCollector(
        tmp_path,
        collect_specified_data={"collect_landscape": None},
        collect_output_statistics=(1, 2),
        whole_tensors=True,
    )
    with pytest.raises(RuntimeError, match="mine"):
        trainer(logger=False, callbacks=[collector]).fit(net, loader())

    others = [name for name in files(tmp_path) if "summary." not in name]
    assert others == [OUTPUT_ROWS_FILE, "whole_step_1.npz"]
    assert [name for name in _METHODS if name in vars(net)] == []
    table = SummaryReader(tmp_path).output_statistics()
    assert table is not None
    assert table.steps.tolist() == [1]


def test_whole_tensors_of_a_scaled_loss_are_with_its_scale(tmp_path: Path) -> None:
    plugin = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=2.0**12))
    collector = SummaryCollector(tmp_path, collect_output_statistics=(1,), whole_tensors=True)
    trainer(logger=False, callbacks=[collector], plugins=[plugin], limit_train_batches=1).fit(
        Net(), loader()
    )

    assert WholeStepReader(whole_step_path(str(tmp_path), 1)).step.loss_scale == 2.0**12


class _Copied(Net):
    """Is pickled and copied in the middle of a step."""

    def on_before_backward(self, loss: Tensor) -> None:
        self.__dict__["copies"] = [pickle.loads(pickle.dumps(self)), copy.deepcopy(self)]


def test_copies_of_a_module_and_a_collector_in_a_step_have_methods_of_their_own(
    tmp_path: Path,
) -> None:
    class Copy(L.Callback):
        def on_before_backward(self, *_: Any) -> None:
            self.copied = pickle.loads(pickle.dumps(collector))

    net, copying = _Copied(), Copy()
    collector = SummaryCollector(tmp_path / "run", collect_output_statistics=(1,))
    trainer(logger=False, callbacks=[collector, copying], limit_train_batches=1).fit(net, loader())

    for copied in net.copies:
        assert all(getattr(copied, name).__self__ is copied for name in _METHODS)
    again = Net()
    trainer(logger=False, callbacks=[copying.copied], limit_train_batches=1).fit(again, loader())
    table = SummaryReader(tmp_path / "run").output_statistics()
    assert table is not None
    assert table.steps.tolist() == [1]


@pytest.mark.usefixtures("only_new_garbage")
def test_nothing_keeps_a_module_whose_fit_has_ended(tmp_path: Path) -> None:
    collector = SummaryCollector(tmp_path, collect_output_statistics=(1, 2))
    running, net = trainer(logger=False, callbacks=[collector], limit_train_batches=2), Net()
    running.fit(net, loader())
    held = weakref.ref(net)
    for name in ("log", "log_dict"):  # Lightning gives them to a callback
        vars(collector).pop(name, None)
    del running, net
    gc.collect()

    assert held() is None
