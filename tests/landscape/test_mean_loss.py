"""What cannot be computed outside of a training is refused in a sentence that says what to do."""

from __future__ import annotations

import gc
import logging
import pickle
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from torch.nn.utils.parametrize import register_parametrization

from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointWriter
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.summary_landscape import SummaryLandscape
from mindsummary_lightning.values.landscape_settings import LandscapeSettings
from tests.landscape import zoo
from tests.landscape.nets import save
from tests.trainer.support import trainer


class ReadsItself(zoo.Lit):
    def training_step(self, dataloader_iter: Any) -> Any:  # type: ignore[override]
        return next(dataloader_iter)


class Unpicklable(zoo.Lit):
    def __init__(self) -> None:
        super().__init__()
        self.own = lambda x: x


class NeedsItsOptimizer(zoo.Lit):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return (
            super().training_step(batch, batch_idx)
            * self.trainer.optimizers[0].param_groups[0]["lr"]
        )


class ReadsWhatAHookSets(zoo.Lit):
    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        self.weight_of_batch = 0.5

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch, batch_idx) * self.weight_of_batch


class BadStep(zoo.Lit):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        raise ValueError("mine")


class Quantiles(zoo.Lit):
    """Optimizes by hand, and says its loss in a validation step that asks for the
    loader's index.
    """

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
    with pytest.raises(
        TypeError,
        match=r"training_step of ReadsItself takes dataloader_iter and not a batch; pass loss_fn",
    ):
        MeanLoss(ReadsItself())


@pytest.mark.parametrize(
    "wrap", [lambda x: x, lambda x: {"loss": x}, lambda x: (x, 9.0), lambda x: [{"loss": x}]]
)
def test_a_loss_is_taken_from_what_the_collector_takes_it_from(wrap: Callable[[Any], Any]) -> None:
    loss = MeanLoss(torch.nn.Identity(), lambda output, target: wrap(output - target))

    assert float(loss((torch.tensor([3.0, 5.0]), torch.tensor([1.0, 2.0])), 0)) == 2.5


class Doubled(zoo.Lit):
    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return 2 * batch


class Tripled(lightning.LightningDataModule):
    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        self.seen = self.trainer
        return 3 * batch

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        return batch + 1

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return batch**2


def test_a_data_modules_hooks_take_the_place_of_the_modules_and_do_without_its_trainer() -> None:
    data, own = Tripled(), threading.Lock()  # which cannot be sent
    data.trainer = own  # type: ignore[assignment]
    for given, expected in ((None, 2), (data, 16)):
        loss = MeanLoss(Doubled(), datamodule=given)
        assert loss.on_device(torch.ones(2), torch.device("cpu"), None).tolist() == [
            expected,
            expected,
        ]
        assert (
            pickle.loads(pickle.dumps(loss)).on_device(torch.ones(1), torch.device("cpu"), None)
            == expected
        )
    assert data.seen is None
    assert data.trainer is own


class Augments(zoo.Lit):
    def configure_model(self) -> None:
        torch.rand(1)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return batch.sum() if self.trainer.training else 0 * batch.sum()


def test_a_step_that_asks_has_a_trainer_that_trains_and_not_its_own() -> None:
    module, logger = Augments(), logging.getLogger("lightning.pytorch.utilities.rank_zero")
    module.trainer = trainer(logger=False)
    module.scale = torch.nn.Parameter(torch.ones(2))
    register_parametrization(module, "scale", torch.nn.Identity())
    state, level = torch.get_rng_state(), logger.level
    loss = MeanLoss(module)
    with pytest.raises(RuntimeError, match="not attached") as missing:
        loss(torch.ones(2), 0)
    assert loss.adapt(missing.value)

    assert loss.copies([])()(torch.ones(2), 0) == 2
    assert torch.equal(state, torch.get_rng_state())
    assert logger.level == level


def generate(run: Path, module: Any, **options: Any) -> Any:
    settings = LandscapeSettings(3, num_samples=8, train=False)
    save(LandscapeCheckpointWriter(run, "Net", settings), 1, module.state_dict())
    return SummaryLandscape(run).generate(
        module, zoo.loader(), accelerator="cpu", **{"devices": 1} | options
    )


@pytest.mark.slow
def test_a_step_that_reads_what_a_hook_sets_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        TypeError, match=r"training_step of ReadsWhatAHookSets reads 'weight_of_batch', .*loss_fn"
    ):
        generate(tmp_path, ReadsWhatAHookSets())
    trained = ReadsWhatAHookSets()
    trained.on_train_batch_start(None, 0)
    assert generate(tmp_path, trained)


def test_a_step_that_needs_its_trainers_optimizers_says_what_to_pass(tmp_path: Path) -> None:
    with pytest.raises(
        TypeError,
        match=r"training_step of NeedsItsOptimizer needs the Trainer of its training.*loss_fn",
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
    with pytest.raises(
        TypeError,
        match=r"several devices need a module and loss that can be pickled .*use devices=1",
    ):
        generate(tmp_path, Unpicklable(), devices=2)


class Draws(zoo.Lit):
    """Needs a gradient, and random numbers."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        (slope,) = torch.autograd.grad(
            super().training_step(batch, batch_idx), self.parameters().__next__()
        )
        return 0 * slope.sum() + torch.rand(()) + random.random()


def test_random_numbers_are_the_same_at_every_point_and_every_time_and_the_process_keeps_its_own(
    tmp_path: Path,
) -> None:
    module, surfaces = Draws(), []
    for seed in (1, 2):
        random.seed(seed)
        torch.manual_seed(seed)
        before = random.getstate(), torch.get_rng_state().tolist()
        surfaces += generate(tmp_path, module)["landscape_[1]"].surface.z.tolist()
        assert (random.getstate(), torch.get_rng_state().tolist()) == before

    assert min(map(min, surfaces)) == max(map(max, surfaces)) > 0


def test_half_precision_can_be_asked_for_of_a_run_in_float32(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = zoo.Lit()
    exact, half = (
        generate(tmp_path, module, precision=precision) for precision in (None, "bf16-true")
    )
    one, other = (made["landscape_[1]"].surface.z for made in (exact, half))
    assert 1e-5 < abs(one / other - 1).max() < 2e-2
