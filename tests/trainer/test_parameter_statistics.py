"""Statistics of every parameter in real trainings, against NumPy in float64.

NumPy gets what the hooks of the module see.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import BackboneFinetuning
from lightning.pytorch.plugins import MixedPrecision
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import SummaryCollector, SummaryReader
from mindsummary_lightning.reading.parameter_tables import ParameterTable
from tests.trainer.support import Gan, Net, loader, points, trainer

ONLY = {"collect_metric": True}
Numbers = dict[str, float]


def statistics_of(array: np.ndarray[Any, Any], kind: str) -> Numbers:
    """What NumPy says in float64."""
    magnitudes = np.abs(array.astype(np.float64).ravel())
    finite = magnitudes[np.isfinite(magnitudes)]
    values = {
        "rms": np.sqrt((finite**2).mean()),
        "max": finite.max(),
        "non_finite": float(magnitudes.size - finite.size),
    }
    if kind == "gradient":
        values |= {"mean": finite.mean(), "zeros": (magnitudes == 0).mean()}
    return {f"{kind}_{name}": float(value) for name, value in values.items()}


class Judge(L.Callback):
    """Keeps NumPy's statistics of gradients and weights.

    Gradients before each optimizer step, weights after each batch.
    """

    def __init__(self, divisor: float = 1.0) -> None:
        self.divisor = divisor
        self.steps: list[dict[str, Numbers]] = []
        self._now: dict[str, Numbers] = {}
        self._before: dict[str, Any] = {}

    def on_train_batch_start(self, trainer: Any, pl_module: Any, *rest: Any) -> None:
        self._global_step = trainer.global_step

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        held = {id(part) for group in optimizer.param_groups for part in group["params"]}
        for name, parameter in pl_module.named_parameters():
            if id(parameter) in held:
                self._before.setdefault(name, parameter.detach().double().numpy().copy())
            if id(parameter) in held and parameter.grad is not None:
                gradient = parameter.grad
                gradient = gradient.coalesce().values() if gradient.is_sparse else gradient
                array = gradient.double().numpy() / self.divisor
                self._now.setdefault(name, {}).update(statistics_of(array, "gradient"))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *rest: Any) -> None:
        if trainer.global_step == self._global_step:
            return
        held = {
            id(part)
            for each in trainer.optimizers
            for group in each.param_groups
            for part in group["params"]
        }
        for name, parameter in pl_module.named_parameters():
            if id(parameter) in held:
                weight = parameter.detach().double().numpy()
                numbers = self._now.setdefault(name, {})
                numbers |= {**statistics_of(weight, "weight"), "elements": float(weight.size)}
                if name in self._before:
                    change = weight - self._before[name]
                    numbers["update_ratio"] = float(
                        np.sqrt((change**2).mean()) / numbers["weight_rms"]
                    )
        self.steps.append(self._now)
        self._now, self._before = {}, {}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(1)


def table_of(run: Path) -> ParameterTable:
    table = SummaryReader(run).parameter_statistics()
    assert table is not None
    return table


def assert_equals(table: ParameterTable, expected: Sequence[dict[str, Numbers]]) -> None:
    assert table.steps.tolist() == list(range(1, len(expected) + 1))
    for at, step in enumerate(expected):
        for row, name in enumerate(table.parameters):
            for column, name_of in enumerate(table.columns):
                number = step.get(name, {}).get(name_of, np.nan)
                ours, where = table.values[at, row, column], f"{at + 1} {name} {name_of}"
                np.testing.assert_allclose(ours, number, rtol=1e-6, atol=1e-44, err_msg=where)


def fit(
    run: Path, net: Any, batches: Any = None, judge: Judge | None = None, **options: Any
) -> ParameterTable:
    """One training whose every step has a table, which equals NumPy's."""
    judge = judge or Judge()
    collector = SummaryCollector(
        run,
        1,
        ONLY,
        False,
        collect_tensor_freq=1,
        collect_parameter_statistics=True,
        collect_parameter_updates=True,
    )
    more = options.pop("callbacks", [])
    trainer(logger=False, callbacks=[judge, collector, *more], **options).fit(
        net, batches or loader(3)
    )
    table = table_of(run)
    assert_equals(table, judge.steps)
    return table


def test_a_training_has_a_table_a_step_that_equals_numpys(tmp_path: Path) -> None:
    table = fit(tmp_path, Net())

    assert table.parameters == ("first.weight", "first.bias", "second.weight", "second.bias")
    assert table.column("elements")[0].tolist() == [12, 3, 6, 2]
    assert SummaryReader(tmp_path).tags() == {
        "scalar": [
            "loss/auto",
            "parameter_statistics/largest_gradient_rms",
            "parameter_statistics/non_finite",
        ],
        "image": ["parameter_statistics/gradient_rms"],
        "tensor": ["parameter_statistics"],
        "histogram": [],
        "loss_landscape": [],
    }
    largest = points(tmp_path, "parameter_statistics/largest_gradient_rms")
    assert [number for _, number in largest] == pytest.approx(
        table.column("gradient_rms").max(axis=1), rel=1e-6
    )


def test_accumulated_batches_are_one_step(tmp_path: Path) -> None:
    fit(tmp_path, Net(), loader(6), accumulate_grad_batches=2)


def test_gradients_are_taken_before_clipping(tmp_path: Path) -> None:
    fit(tmp_path, Net(), gradient_clip_val=1e-3)


@pytest.mark.parametrize("fused", [False, True], ids=["unscaled by Lightning", "fused"])
def test_gradients_of_a_scaled_loss_are_unscaled(tmp_path: Path, fused: bool) -> None:
    class Fused(Net):
        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1, fused=fused)

    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    judge = Judge(2.0**12 if fused else 1.0)
    fit(tmp_path, Fused(), judge=judge, plugins=[MixedPrecision("16-mixed", "cpu", scaler)])


def test_two_optimizers_share_a_table(tmp_path: Path) -> None:
    fit(tmp_path, Gan())


def test_lbfgs_has_the_gradients_of_its_last_evaluation_and_the_update_of_all(
    tmp_path: Path,
) -> None:
    class Curved(Net):
        def configure_optimizers(self) -> Any:
            return torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=4)

    fit(tmp_path, Curved())


def test_bfloat16(tmp_path: Path) -> None:
    fit(tmp_path, Net(), precision="bf16-true")


def test_a_sparse_gradient_has_the_statistics_of_its_stored_elements(tmp_path: Path) -> None:
    class Words(Net):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(50, 4, sparse=True)

        def forward(self, x: Tensor) -> Tensor:
            scores: Tensor = super().forward(self.table(x).mean(1))
            return scores

    words = torch.tensor([[3, 3, 7], [3, 9, 9], [1, 3, 3], [2, 2, 2]])
    table = fit(tmp_path, Words(), DataLoader(TensorDataset(words, torch.tensor([0, 1, 0, 1])), 4))
    assert table.column("elements")[0].max() == 200


def test_a_frozen_parameter_has_a_weight_and_no_gradient(tmp_path: Path) -> None:
    net = Net()
    net.first.bias.requires_grad_(False)
    table = fit(tmp_path, net)

    row = table.parameters.index("first.bias")
    assert np.isnan(table.column("gradient_rms")[:, row]).all()
    assert np.isfinite(table.column("weight_rms")[:, row]).all()


def test_parameters_that_join_later_get_rows_behind_the_others(tmp_path: Path) -> None:
    class Backbone(Net):
        @property
        def backbone(self) -> nn.Module:
            return self.first

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.second.parameters(), lr=0.1)

    table = fit(
        tmp_path, Backbone(), max_epochs=2, callbacks=[BackboneFinetuning(1, verbose=False)]
    )

    assert table.parameters == ("second.weight", "second.bias", "first.weight", "first.bias")
    assert np.isnan(table.values[:3, 2:]).all()
    assert np.isfinite(table.column("gradient_rms")[3:, 2:]).all()


def test_an_expression_chooses_the_parameters(tmp_path: Path) -> None:
    collector = SummaryCollector(tmp_path, 1, ONLY, False, collect_parameter_statistics="second")
    trainer(logger=False, callbacks=[collector]).fit(Net(), loader(2))

    table = table_of(tmp_path)
    assert table.parameters == ("second.weight", "second.bias")
    assert np.isnan(table.column("update_ratio")).all()


def test_a_training_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    weights = []
    for options in ({}, {"collect_parameter_statistics": True, "collect_parameter_updates": True}):
        torch.manual_seed(1)
        net = Net()
        collector = SummaryCollector(tmp_path / str(len(weights)), 1, ONLY, False, **options)
        trainer(logger=False, callbacks=[collector]).fit(net, loader(5))
        weights.append([parameter.detach().numpy().tobytes() for parameter in net.parameters()])

    assert weights[0] == weights[1]


@pytest.mark.slow
def test_a_fit_that_ends_unexpectedly_has_its_last_table_and_picture(tmp_path: Path) -> None:
    class Stopped(Net):
        def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
            if self.trainer.global_step == 47:
                raise RuntimeError("power")
            return super().training_step(batch, batch_idx)

    collector = SummaryCollector(tmp_path, 5, ONLY, False, collect_parameter_statistics=True)
    with pytest.raises(RuntimeError, match="power"):
        trainer(logger=False, callbacks=[collector]).fit(Stopped(), loader(1200))

    assert table_of(tmp_path).steps.tolist() == [1, 45]
    assert [
        step for step, _, _ in SummaryReader(tmp_path).images("parameter_statistics/gradient_rms")
    ] == [45]


class Planted(Net):
    """A deep chain in whose middle a gradient becomes NaN at one step."""

    def __init__(self, step: int, layer: int, what: str = "gradient") -> None:
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(4, 4) for _ in range(10)])
        self.step, self.layer, self.what = step, layer, what

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = super().forward(self.layers(x))
        return scores

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        if self.trainer.global_step + 1 == self.step and self.what == "gradient":
            self.layers[self.layer].weight.grad[1, 2] = torch.nan  # type: ignore[index,union-attr]

    def on_train_batch_end(self, *rest: Any) -> None:
        if self.trainer.global_step == self.step and self.what == "weight":
            with torch.no_grad():
                self.layers[self.layer].weight[0, 0] = torch.inf  # type: ignore[index]


@pytest.mark.slow
def test_the_first_number_that_is_not_finite_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    net = Planted(60, 7)
    collector = SummaryCollector(tmp_path, 10, ONLY, False, collect_parameter_statistics=True)
    # Lightning calls the hooks of callbacks before those of the module.
    planting = L.Callback()
    planting.on_before_optimizer_step = lambda trainer, module, optimizer: (
        net.on_before_optimizer_step(optimizer)
    )  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING, "mindsummary_lightning"):
        trainer(logger=False, callbacks=[planting, collector]).fit(net, loader(70))

    (message,) = [record.message for record in caplog.records if "not finite" in record.message]
    loss = dict(points(tmp_path, "loss/auto"))[60]
    assert message.startswith("step 60: the gradient of layers.7.weight is not finite")
    assert f"1 of 24 parameters are affected, and the loss is {loss:g}" in message
    table = table_of(tmp_path)
    first = table.first_non_finite()
    assert (first.step, first.parameter, first.kind) == (60, "layers.7.weight", "gradient")
    at = table.steps.tolist().index(60)
    assert table.column("gradient_non_finite")[at].sum() == 1
    assert table.column("weight_non_finite")[at].sum() == 1


def test_an_overflow_that_the_scaler_skips_is_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1)
    collector = SummaryCollector(tmp_path, 1, ONLY, False, collect_parameter_statistics=True)
    running = trainer(
        logger=False, callbacks=[collector], plugins=[MixedPrecision("16-mixed", "cpu", scaler)]
    )
    with caplog.at_level(logging.WARNING, "mindsummary_lightning"):
        running.fit(Net(), loader(3))

    assert max(count for _, count in points(tmp_path, "parameter_statistics/non_finite")) > 0
    assert not [record for record in caplog.records if "not finite" in record.message]


def test_a_later_fit_into_the_run_keeps_the_rows(tmp_path: Path) -> None:
    def collect(net: Any, **options: Any) -> None:
        collector = SummaryCollector(
            tmp_path / "run", 1, ONLY, False, collect_parameter_statistics=True
        )
        running = trainer(
            logger=False,
            callbacks=[collector],
            enable_checkpointing=True,
            default_root_dir=tmp_path,
            **{"max_epochs": 1, **options},
        )
        running.fit(net, loader(2), ckpt_path=str(tmp_path / "c.ckpt") if options else None)
        running.save_checkpoint(tmp_path / "c.ckpt")

    collect(Net())
    names = json.loads((tmp_path / "run" / "parameter_statistics.json").read_text(encoding="utf-8"))
    collect(Net(), max_epochs=2)

    table = table_of(tmp_path / "run")
    assert table.steps.tolist() == [1, 2, 3, 4]
    assert list(table.parameters) == names["rows"]
    assert np.isfinite(table.column("gradient_rms")).all()


def test_a_table_of_names_is_there_with_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    fit(tmp_path, Net())
    frame = table_of(tmp_path).to_pandas()

    assert frame.index.names == ["step", "parameter"]
    assert frame.loc[(2, "first.weight"), "elements"] == 12


def test_a_run_without_statistics_has_none(tmp_path: Path) -> None:
    collector = SummaryCollector(tmp_path, 1, ONLY, False)
    trainer(logger=False, callbacks=[collector]).fit(Net(), loader(2))

    assert SummaryReader(tmp_path).parameter_statistics() is None
    assert not (tmp_path / "parameter_statistics.json").exists()
