"""The lineage has the learning rate that the optimizer was made with.

A scheduler does not change it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from mindsummary_lightning import SummaryCollector, SummaryReader, TrainLineage
from tests.trainer.support import Net, loader, trainer


class Scheduled(Net):
    """Two parameter groups under a scheduler that is made for 12 steps."""

    def __init__(self, scheduler: str) -> None:
        super().__init__()
        self.scheduler = scheduler

    def configure_optimizers(self) -> Any:
        groups = [
            {"params": self.first.parameters(), "lr": 0.25},
            {"params": self.second.parameters(), "lr": 0.5},
        ]
        optimizer = torch.optim.SGD(groups, lr=0.125)
        scheduler: Any = {
            "linear": lambda: torch.optim.lr_scheduler.LambdaLR(
                optimizer, lambda step: max(0.0, 1 - step / 12)
            ),
            "warm-up": lambda: torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=24),
            "one cycle": lambda: torch.optim.lr_scheduler.OneCycleLR(
                optimizer, [6.25, 12.5], total_steps=13
            ),
            "none": lambda: None,
        }[self.scheduler]()
        if scheduler is None:
            return optimizer
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.scheduler == "none":
            self.optimizers().param_groups[0]["lr"] *= 0.5  # type: ignore[union-attr]


def _rates(run: Path) -> tuple[float | None, float]:
    lineage = SummaryReader(run).lineage()
    assert (lineage.custom.values["learning_rate/0"], lineage.custom.values["learning_rate/1"]) == (
        0.25,
        0.5,
    )
    return lineage.train.learning_rate, float(lineage.custom.values["final_learning_rate"])


@pytest.mark.parametrize("callback", [SummaryCollector, TrainLineage])
@pytest.mark.parametrize(
    ("scheduler", "final"),
    [
        ("linear", 0.0),
        ("warm-up", 0.25 * (0.01 + 0.99 / 2)),
        ("one cycle", 0.25 / 1e4),  # it makes 0.25 of 6.25, whatever the optimizer was given
        ("none", 0.25 / 2**12),
    ],
)
def test_the_first_rate_of_the_first_group_is_the_learning_rate(
    tmp_path: Path, callback: Any, scheduler: str, final: float
) -> None:
    trainer(logger=False, callbacks=[callback(tmp_path)], max_epochs=2).fit(
        Scheduled(scheduler), loader(6)
    )

    assert _rates(tmp_path) == (0.25, pytest.approx(final))


class ThereAndBack(Net):
    """A rate that is halved for two steps."""

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: 0.5 if step in (1, 2) else 1.0
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }


def test_a_rate_that_came_back_to_the_first_one_is_the_final_one(tmp_path: Path) -> None:
    saving = ModelCheckpoint(tmp_path / "saved", every_n_train_steps=1, save_top_k=1)
    trainer(
        logger=False, callbacks=[TrainLineage(tmp_path), saving], enable_checkpointing=True
    ).fit(ThereAndBack(), loader(4))

    assert SummaryReader(tmp_path).lineage().custom.values["final_learning_rate"] == 0.5


def test_a_rate_that_never_changed_has_no_final_one(tmp_path: Path) -> None:
    trainer(logger=False, callbacks=[SummaryCollector(tmp_path)], max_epochs=1).fit(
        Net(), loader(2)
    )

    assert "final_learning_rate" not in SummaryReader(tmp_path).lineage().custom.values


@pytest.mark.slow
@pytest.mark.parametrize("callback", [SummaryCollector, TrainLineage])
@pytest.mark.parametrize("scheduler", ["linear", "none"])
@pytest.mark.parametrize("place", ["run", "another"])
def test_a_resumed_run_has_the_rates_of_its_first_part(
    tmp_path: Path, callback: Any, scheduler: str, place: str
) -> None:
    saving = ModelCheckpoint(tmp_path / "saved", "{step}", every_n_train_steps=3, save_top_k=-1)
    options: dict[str, Any] = {
        "logger": False,
        "enable_checkpointing": True,
        "default_root_dir": tmp_path,
    }
    trainer(callbacks=[callback(tmp_path / "run"), saving], **options).fit(
        Scheduled(scheduler), loader(6)
    )
    # the second is of the part that resumed
    for source, epochs in (("step=3.ckpt", 1), ("step=6.ckpt", 2)):
        resumed = trainer(
            callbacks=[callback(tmp_path / place), saving], max_epochs=epochs, **options
        )
        resumed.fit(Scheduled(scheduler), loader(6), ckpt_path=tmp_path / "saved" / source)

    assert _rates(tmp_path / place)[0] == 0.25


@pytest.mark.parametrize("callback", [SummaryCollector, TrainLineage])
def test_a_resumed_fit_has_the_rates_of_its_checkpoint_and_the_next_fit_its_own(
    tmp_path: Path, callback: Any
) -> None:
    first = trainer(logger=False, callbacks=[callback(tmp_path / "first")])
    first.fit(Scheduled("none"), loader(2))
    first.save_checkpoint(tmp_path / "saved.ckpt")
    ours = callback(tmp_path / "second")
    trainer(logger=False, callbacks=[ours], max_epochs=2).fit(
        Scheduled("none"), loader(2), ckpt_path=tmp_path / "saved.ckpt"
    )
    assert _rates(tmp_path / "second") == (0.25, 0.25 / 2**4)

    trainer(logger=False, callbacks=[ours]).fit(Net(0.75), loader(2))
    assert SummaryReader(tmp_path / "second").lineage().train.learning_rate == 0.75


@pytest.mark.parametrize("callback", [SummaryCollector, TrainLineage])
def test_a_fit_that_continues_its_trainers_has_the_rates_of_the_first_and_another_its_own(
    tmp_path: Path, callback: Any
) -> None:
    ours = callback(tmp_path / "run")
    running = trainer(logger=False, callbacks=[ours])
    net = Scheduled("none")
    running.fit(net, loader(6))
    running.fit_loop.max_epochs = 2
    running.fit(net, loader(6))
    assert _rates(tmp_path / "run")[0] == 0.25

    trainer(logger=False, callbacks=[ours]).fit(Net(0.75), loader(2))
    assert SummaryReader(tmp_path / "run").lineage().train.learning_rate == 0.75


@pytest.mark.parametrize("callback", [SummaryCollector, TrainLineage])
def test_groups_that_join_during_the_fit_have_their_first_rates_too(
    tmp_path: Path, callback: Any
) -> None:
    class Joining(Net):
        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.second.parameters(), lr=0.5)

        def on_train_epoch_start(self) -> None:
            if self.current_epoch == 1:
                self.optimizers().add_param_group({"params": self.first.parameters(), "lr": 0.25})  # type: ignore

    trainer(logger=False, callbacks=[callback(tmp_path)], max_epochs=2).fit(Joining(), loader(2))

    lineage = SummaryReader(tmp_path).lineage()
    assert {key: lineage.custom.values.get(f"learning_rate/{key}") for key in (0, 1)} == {
        0: 0.5,
        1: 0.25,
    }
    assert lineage.train.learning_rate == 0.5
