"""What cannot be computed outside of a training is refused in a sentence that says what to do."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch

from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointWriter
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.summary_landscape import SummaryLandscape
from mindsummary_lightning.values.landscape_settings import LandscapeSettings
from tests.landscape import zoo
from tests.landscape.nets import save


class ReadsItself(zoo.Lit):
    def training_step(self, dataloader_iter: Any) -> Any:  # type: ignore[override]
        return next(dataloader_iter)


class Unpicklable(zoo.Lit):
    def __init__(self) -> None:
        super().__init__()
        self.own = lambda x: x


class NeedsItsOptimizer(zoo.Lit):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch, batch_idx) * self.trainer.optimizers[0].param_groups[0]["lr"]


class ReadsWhatAHookSets(zoo.Lit):
    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self.weight_of_batch = 0.5

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch, batch_idx) * self.weight_of_batch


class BadStep(zoo.Lit):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        raise ValueError("mine")


class Quantiles(zoo.Lit):
    """Optimizes by hand, and says its loss in a validation step that asks for the loader's index."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int) -> Any:
        return zoo.step_in_epoch_zero(self, batch, batch_idx) + dataloader_idx


def test_manual_optimization_is_refused_unless_a_validation_step_gives_the_loss() -> None:
    with pytest.raises(TypeError, match=r"Gan optimizes manually.*pass loss_fn"):
        MeanLoss(zoo.Gan())
    x, y = zoo.data()
    assert MeanLoss(Quantiles())([x, y], 0).item() > 0


def test_a_step_that_reads_the_loader_itself_is_refused() -> None:
    with pytest.raises(TypeError, match=r"training_step of ReadsItself reads the dataloader_iter itself; pass loss_fn"):
        MeanLoss(ReadsItself())


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: {"loss": x}, lambda x: (x, 9.0), lambda x: [{"loss": x}]])
def test_a_loss_is_taken_from_what_the_collector_takes_it_from(wrap: Callable[[Any], Any]) -> None:
    loss = MeanLoss(torch.nn.Identity(), lambda output, target: wrap(output - target))

    assert float(loss((torch.tensor([3.0, 5.0]), torch.tensor([1.0, 2.0])), 0)) == 2.5


class Doubled(zoo.Lit):
    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return 2 * batch


class Tripled(lightning.LightningDataModule):
    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return 3 * batch


def test_a_data_modules_hook_takes_the_place_of_the_modules_as_in_lightning() -> None:
    for data, factor in ((None, 2), (Tripled(), 3)):
        batch = MeanLoss(Doubled(), datamodule=data).on_device(torch.ones(2), torch.device("cpu"), None)
        assert batch.tolist() == [factor, factor]


def generate(run: Path, module: Any, **options: Any) -> Any:
    settings = LandscapeSettings(3, num_samples=8, train=False)
    save(LandscapeCheckpointWriter(run, "Net", settings), 1, module.state_dict())
    return SummaryLandscape(run).generate(module, zoo.loader(), accelerator="cpu", **{"devices": 1} | options)


@pytest.mark.slow
def test_a_step_that_reads_what_a_hook_sets_says_so(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"training_step of ReadsWhatAHookSets reads 'weight_of_batch', .*loss_fn"):
        generate(tmp_path, ReadsWhatAHookSets())
    trained = ReadsWhatAHookSets()
    trained.on_train_batch_start(None, 0)
    assert generate(tmp_path, trained)


def test_a_step_that_needs_its_trainers_optimizers_says_what_to_pass(tmp_path: Path) -> None:
    with pytest.raises(
        TypeError, match=r"training_step of NeedsItsOptimizer needs the Trainer of its training.*loss_fn"
    ):
        generate(tmp_path, NeedsItsOptimizer())


class AsksItsTrainer(zoo.Lit):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch, batch_idx) * (1 + self.trainer.current_epoch)


def trainers() -> int:
    gc.collect()
    return sum(isinstance(each, lightning.Trainer) for each in gc.get_objects())


@pytest.mark.slow
def test_the_idle_trainer_of_a_landscape_goes_with_it(tmp_path: Path) -> None:
    before = trainers()
    assert generate(tmp_path, AsksItsTrainer())
    assert trainers() == before


@pytest.mark.slow
def test_a_users_own_error_stays_his(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"):
        generate(tmp_path, BadStep())


def test_several_devices_need_a_module_that_can_be_pickled(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"several devices need a module and loss that can be pickled .*use devices=1"):
        generate(tmp_path, Unpicklable(), devices=2)


def test_half_precision_can_be_asked_for_of_a_run_in_float32(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = zoo.Lit()
    exact, half = (generate(tmp_path, module, precision=precision) for precision in (None, "bf16-true"))
    one, other = (made["landscape_[1]"].surface.z for made in (exact, half))
    assert 1e-5 < abs(one / other - 1).max() < 2e-2
