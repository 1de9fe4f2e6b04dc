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


class StepOfTorch(torch.nn.Module):
    """A step without Lightning."""

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        return batch.sum() + batch_idx


def test_a_step_of_a_module_of_torch_gives_its_loss() -> None:
    assert MeanLoss(StepOfTorch())(torch.ones(3), 2) == 5


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


@pytest.mark.parametrize("answer", [3.0, None, {"loss": "text"}])
def test_a_loss_that_is_no_tensor_is_refused(answer: object) -> None:
    loss = MeanLoss(torch.nn.Identity(), lambda output, target: answer)

    with pytest.raises(TypeError, match="the loss must be a tensor, or a dict with a tensor under"):
        loss((torch.zeros(2), torch.zeros(2)), 0)


class Silent(zoo.Lit):
    """Its training step gives no loss, and its validation step only if it ``speaks``."""

    speaks = True

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return None

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        return batch.sum() + batch_idx if self.speaks else None


def test_a_validation_step_gives_the_loss_that_the_training_step_does_not() -> None:
    module = Silent()
    assert MeanLoss(module)(torch.ones(2), 5).item() == 7

    module.speaks = False
    with pytest.raises(
        TypeError,
        match="training_step and validation_step of Silent returned no loss; pass loss_fn",
    ):
        MeanLoss(module)(torch.ones(2), 5)


STEPS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "batch": (lambda self, batch: self.got(batch), ()),
    "index": (lambda self, batch, batch_idx: self.got(batch, batch_idx), (4,)),
    "loader": (lambda self, batch, batch_idx, loader: self.got(batch, batch_idx, loader), (4, 0)),
    "defaults": (
        lambda self, batch, batch_idx=9, loader=8: self.got(batch, batch_idx, loader),
        (4, 8),
    ),
    "one default": (lambda self, batch, batch_idx=9: self.got(batch, batch_idx), (4,)),
    "any": (lambda self, *arguments: self.got(*arguments), (4,)),
    "more": (lambda self, batch, *others: self.got(batch, *others), (4,)),
    "many": (
        lambda self, batch, batch_idx, loader, *others: self.got(batch, batch_idx, loader, *others),
        (4, 0),
    ),
    "keywords": (lambda self, batch, *, scale=2: self.got(batch, scale), (2,)),
}


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_gets_the_arguments_that_it_takes(kind: str) -> None:
    step, expected = STEPS[kind]
    seen: list[tuple[Any, ...]] = []

    def got(self: Any, batch: torch.Tensor, *others: Any) -> torch.Tensor:
        seen.append(others)
        return batch.sum()

    methods = {"training_step": step, "got": got}
    assert MeanLoss(type("Own", (zoo.Lit,), methods)())(torch.ones(3), 4).item() == 3
    assert seen == [expected]


def test_batches_get_the_true_precision_of_the_parameters() -> None:
    batch = {"x": torch.ones(2), "y": [torch.tensor([1, 2]), "text"]}
    loss = MeanLoss(zoo.Lit())

    half = loss.on_device(batch, torch.device("cpu"), torch.bfloat16)
    same = loss.on_device(batch, torch.device("cpu"), None)

    assert (half["x"].dtype, half["y"][0].dtype, half["y"][1]) == (
        *(torch.bfloat16, torch.int64, "text"),
    )
    assert same["x"].dtype == torch.float32


def test_gradients_are_added_once_and_for_a_step_only() -> None:
    lacking = RuntimeError("element 0 of tensors does not require grad")
    by_hand, step = MeanLoss(torch.nn.Identity(), zoo.LOSS), MeanLoss(zoo.Lit())

    assert (by_hand.adapt(lacking), by_hand.needs_gradients) == (False, False)
    assert (step.needs_gradients, step.adapt(lacking), step.needs_gradients) == (False, True, True)
    assert step.adapt(lacking)  # an idle Trainer, the next that may be lacking
    assert not step.adapt(lacking)


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
        training = self.trainer.training
        self.logger.experiment.add_scalar("x", 1)
        return batch.sum() if training else 0 * batch.sum()


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
    assert pickle.loads(pickle.dumps(loss))(torch.ones(2), 0) == 2
    assert not loss.adapt(missing.value)
    assert torch.equal(state, torch.get_rng_state())
    assert logger.level == level


def generate(run: Path, module: Any, **options: Any) -> Any:
    settings = LandscapeSettings(3, num_samples=8, train=False)
    save(LandscapeCheckpointWriter(run, "Net", settings), 1, module.state_dict())
    return SummaryLandscape(run).generate(
        module, zoo.loader(), accelerator="cpu", **{"devices": 1} | options
    )


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


def test_a_users_own_error_stays_his(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"):
        generate(tmp_path, BadStep())


def test_an_error_of_a_users_own_loss_stays_his_although_the_network_is_lightnings() -> None:
    module = zoo.Lit()
    loss = MeanLoss(module, torch.nn.functional.cross_entropy)

    with pytest.raises(AttributeError, match="nothing") as missing:
        _ = module.nothing

    assert loss.adapt(missing.value)
    assert loss.explained(missing.value) is missing.value


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
