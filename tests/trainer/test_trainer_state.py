"""What is read of a Trainer's state, where it has it and where it has not."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from mindsummary_lightning.trainer.trainer_state import (
    backward_scale,
    epochs_done,
    evaluation,
    given_loaders,
    has_read_all,
    is_tuning,
    loss_scale,
    planned_steps,
    reads_in_turn,
    real_optimizers,
    scales_loss,
    steps_done,
    steps_in_first_epoch,
    training_loader,
    transferred,
)
from tests.trainer.support import loader


@pytest.mark.parametrize(
    ("estimated", "planned"),
    [(12.0, 12), (1, 1), (0, None), (-1, None), (math.inf, None), (math.nan, None)],
)
def test_planned_steps_are_a_positive_number_or_unknown(
    estimated: float, planned: int | None
) -> None:
    assert planned_steps(SimpleNamespace(estimated_stepping_batches=estimated)) == planned
    assert planned_steps(SimpleNamespace()) is None


@pytest.mark.parametrize(
    ("batches", "accumulated", "steps"),
    [(7, 1, 7), (7, 3, 3), (6, 3, 2), (1, 4, 1), (0, 1, 1), (math.inf, 2, 1)],
)
def test_a_smaller_last_group_of_batches_is_a_step_of_the_first_epoch(
    batches: float, accumulated: int, steps: int
) -> None:
    running = SimpleNamespace(num_training_batches=batches, accumulate_grad_batches=accumulated)

    assert steps_in_first_epoch(running) == steps


@pytest.mark.parametrize(
    ("is_last", "completed", "started", "done"),
    [
        (True, 6, 3, 3),  # validates at the end of its third epoch
        (False, 6, 3, 2),
        (True, 5, 3, 2),  # broke off in the last batch
        (True, 6, 2, 2),  # the third has not begun
    ],
)
def test_an_epoch_is_done_when_its_last_batch_is(
    is_last: bool, completed: int, started: int, done: int
) -> None:
    batches = SimpleNamespace(
        is_last_batch=is_last, current=SimpleNamespace(completed=completed, ready=6)
    )
    fit_loop = SimpleNamespace(
        epoch_progress=SimpleNamespace(current=SimpleNamespace(completed=2, started=started)),
        epoch_loop=SimpleNamespace(batch_progress=batches),
    )

    assert epochs_done(SimpleNamespace(fit_loop=fit_loop, current_epoch=7)) == done
    assert epochs_done(SimpleNamespace(current_epoch=7)) == 7


def test_steps_are_the_batches_that_stepped_or_else_global_steps() -> None:
    counted = SimpleNamespace(epoch_loop=SimpleNamespace(_batches_that_stepped=4))

    assert steps_done(SimpleNamespace(global_step=8, fit_loop=counted)) == 4
    assert steps_done(SimpleNamespace(global_step=8)) == 8


def test_a_tuner_is_known_by_any_of_the_loggers_that_it_put_there() -> None:
    dummy = type("DummyLogger", (), {})()

    assert is_tuning(SimpleNamespace(loggers=[object(), dummy]))
    assert not is_tuning(SimpleNamespace(loggers=[object()]))
    assert not is_tuning(SimpleNamespace(loggers=[]))


def test_a_placeholder_is_no_optimizer() -> None:
    mock, real = type("_MockOptimizer", (), {})(), object()

    assert real_optimizers([mock, real, mock]) == [real]


def test_several_training_loaders_are_the_combined_one_and_a_single_one_is_itself() -> None:
    fit_loop = SimpleNamespace(_combined_loader="combined")

    def of(loaders: Any, **rest: Any) -> Any:
        return training_loader(SimpleNamespace(train_dataloader=loaders, **rest))

    assert of("one", fit_loop=fit_loop) == "one"
    assert of(["a", "b"], fit_loop=fit_loop) == of({"a": 1}, fit_loop=fit_loop) == "combined"
    assert of(("a", "b")) == ("a", "b")


def test_an_evaluation_has_the_kind_the_loaders_and_the_batches_of_its_own() -> None:
    running = SimpleNamespace(
        testing=False,
        num_val_batches=[2, 3],
        val_dataloaders="validation loaders",
        num_test_batches=[5],
        test_dataloaders="test loaders",
    )

    assert evaluation(running) == ("validation", "validation loaders", [2, 3])
    running.testing = True
    assert evaluation(running) == ("test", "test loaders", [5])
    del running.num_test_batches
    assert evaluation(running) == ("test", "test loaders", [])


@pytest.mark.parametrize("is_so", [True, False])
def test_what_lightning_keeps_of_its_loops_is_read_if_it_is_there(is_so: bool) -> None:
    fit_loop = SimpleNamespace(_data_fetcher=SimpleNamespace(done=is_so))
    loop = SimpleNamespace(_is_sequential=is_so)

    assert has_read_all(SimpleNamespace(fit_loop=fit_loop)) is is_so
    assert reads_in_turn(SimpleNamespace(_evaluation_loop=loop)) is is_so
    assert has_read_all(SimpleNamespace(fit_loop=SimpleNamespace())) is False
    assert reads_in_turn(SimpleNamespace()) is True


def test_given_loaders_are_all_that_have_a_data_set() -> None:
    one, other = loader(2), loader(3)
    source = SimpleNamespace(instance=[one, {"b": other, "c": iter([1])}])

    assert given_loaders(SimpleNamespace(fit_loop=SimpleNamespace(_data_source=source))) == [
        one,
        other,
    ]
    assert given_loaders(SimpleNamespace(fit_loop=SimpleNamespace())) == []


def test_a_batch_passes_the_transfer_hooks_of_a_module_that_has_a_trainer() -> None:
    module = SimpleNamespace(
        _trainer=None,
        _on_before_batch_transfer=lambda batch: [*batch, "before"],
        _apply_batch_transfer_handler=lambda batch: [*batch, "transfer"],
    )

    assert transferred(module, ["batch"]) == ["batch"]
    assert transferred(nn.Linear(1, 1), ["batch"]) == ["batch"]
    module._trainer = object()
    assert transferred(module, ["batch"]) == ["batch", "before", "transfer"]


def test_the_scale_of_a_loss_is_the_scalers_and_its_optimizers_one_alone_if_it_unscales() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaled = SimpleNamespace(precision_plugin=SimpleNamespace(scaler=scaler))
    plain = SimpleNamespace(precision_plugin=SimpleNamespace())
    fused, other = SimpleNamespace(_step_supports_amp_scaling=True), SimpleNamespace()
    module = SimpleNamespace(device=torch.device("cpu"))

    assert (scales_loss(scaled), scales_loss(plain)) == (True, False)
    assert (backward_scale(scaled), backward_scale(plain)) == (8.0, 1.0)
    assert loss_scale(scaled, module, other) is loss_scale(plain, module, fused) is None
    assert loss_scale(scaled, module, fused) == torch.tensor(8.0)
