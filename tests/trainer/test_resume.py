"""A run that resumes from a checkpoint continues.

It says so if MindInsight cannot draw one curve.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader
from mindsummary_lightning.collection.options import CollectOptions
from mindsummary_lightning.collection.schedule import Schedule
from mindsummary_lightning.collection.step_collector import StepCollector
from tests.trainer.support import Gan, Net, files, loader, points, steps, trainer

# Steps of a resumed training of ten batches: Lightning 2.4 trains the batch before the checkpoint
# once more.
_LAST = 11 if L.__version__.startswith("2.4.") else 10


class _Stop(L.Callback):
    """Breaks the training off after a number of optimizer steps."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step >= self.at:
            raise RuntimeError("broken off")


def _part(run: Path, net: Any, *callbacks: Any, resume_from: Any = None, **options: Any) -> None:
    """Train a part of two epochs of five batches.

    It saves a checkpoint at every third step.
    """
    logger = MindInsightLogger(run.parent, name="", version=run.name)
    saving = ModelCheckpoint(
        run.parent / "checkpoints", "{step}", every_n_train_steps=3, save_top_k=-1
    )
    running = trainer(
        logger=logger,
        callbacks=[SummaryCollector(collect_freq=1), saving, *callbacks],
        max_epochs=2,
        enable_checkpointing=True,
        **options,
    )
    running.fit(net, loader(5), ckpt_path=resume_from)


def _checkpoint(run: Path, step: int) -> Path:
    return run.parent / "checkpoints" / f"step={step}.ckpt"


@pytest.mark.parametrize(
    ("broken_at", "saved"),
    [*(pytest.param(*each, marks=pytest.mark.slow) for each in ((4, 3), (6, 3), (9, 6))), (8, 6)],
)
def test_a_resumed_run_is_one_curve_with_each_step_once(
    tmp_path: Path, broken_at: int, saved: int, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    with pytest.raises(RuntimeError, match="broken off"):
        _part(run, Net(), _Stop(broken_at))
    before = points(run, "loss/auto")
    _part(run, Net(), resume_from=_checkpoint(run, saved))

    # The reader drops from the first file what the second one did again, as MindInsight does.
    assert [step for step, _ in before] == list(range(1, broken_at + 1))
    assert [step for step, _ in points(run, "loss/auto")] == list(range(1, _LAST + 1))
    assert points(run, "loss/auto")[:saved] == before[:saved]
    assert steps(run, "first.weight/auto", "histogram") == list(range(1, _LAST + 1))
    assert steps(run, "train/loss") == list(range(10))
    assert len([name for name in files(run) if name.endswith("_MS")]) == 2
    assert SummaryReader(run).lineage().custom.values["status"] == "success"  # type: ignore[union-attr]
    assert not [record for record in caplog.records if "earlier fit" in record.message]


def test_steps_go_on_with_several_optimizers(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(RuntimeError, match="broken off"):
        _part(run, Gan(), _Stop(14))  # seven batches
    (saved,) = [path for path in (tmp_path / "checkpoints").iterdir() if "step=12" in path.name]
    _part(run, Gan(), resume_from=saved)

    assert steps(run, "loss/auto") == list(range(1, _LAST + 1))


def test_a_trainer_continues_to_count_the_steps_of_manual_optimization(tmp_path: Path) -> None:
    class EverySecond(Net):
        automatic_optimization = False

        def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
            loss = super().training_step(batch, batch_idx)
            self.manual_backward(loss)
            if batch_idx % 2:
                self.optimizers().step()  # type: ignore[union-attr]
            return loss

    running = trainer(logger=False, callbacks=[SummaryCollector(tmp_path, 1)], limit_val_batches=1)
    net = EverySecond()
    for _ in range(2):
        running.fit(net, loader(4))
        running.validate(net, loader(1), verbose=False)
        running.fit_loop.max_epochs += 1

    assert steps(tmp_path, "loss/auto") == [1, 2, 3, 4]


class _Save(L.Callback):
    """Saves a checkpoint after the second batch, in its hook of the batch."""

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if batch_idx == 1:
            trainer.save_checkpoint(trainer.default_root_dir + "/mine.ckpt")


@pytest.mark.parametrize("is_first", [True, False], ids=["before the collector", "behind it"])
def test_a_checkpoint_that_a_callback_saves_holds_the_step_of_its_batch(
    tmp_path: Path, is_first: bool
) -> None:
    callbacks = [_Save(), SummaryCollector(tmp_path / "run", 1)]
    running = trainer(
        logger=False, callbacks=callbacks[:: 1 if is_first else -1], default_root_dir=tmp_path
    )
    running.fit(Net(), loader(3))

    checkpoint = torch.load(tmp_path / "mine.ckpt", weights_only=True)
    assert (
        checkpoint["global_step"]
        == checkpoint["mindsummary_lightning.SummaryCollector"]["step"]
        == 2
    )


def test_a_checkpoint_saved_after_an_evaluation_says_whose_it_is(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path / "runs", name="")
    running = trainer(logger=logger, callbacks=[SummaryCollector(collect_freq=1)])
    net = Net()
    running.fit(net, loader(3))
    running.validate(net, loader(1), verbose=False)
    running.save_checkpoint(tmp_path / "mine.ckpt")
    trainer(logger=logger, callbacks=[SummaryCollector(collect_freq=1)], max_epochs=2).fit(
        Net(), loader(3), ckpt_path=tmp_path / "mine.ckpt"
    )

    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["version_0"]
    assert steps(logger.log_dir, "loss/auto") == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("net", "saved"), [(Net, 5), (Net, 3), (Gan, 5)])
def test_a_checkpoint_without_a_collector_is_gone_on_from_too(
    tmp_path: Path, net: Any, saved: int
) -> None:
    saving = ModelCheckpoint(tmp_path, "plain", every_n_train_steps=saved)
    plain = trainer(logger=False, callbacks=[saving], max_epochs=1, enable_checkpointing=True)
    plain.fit(net(), loader(5))
    # at an epoch's end: of several optimizers Lightning does not tell the batch within one
    if saved == 5:
        plain.save_checkpoint(tmp_path / "plain.ckpt")
    _part(tmp_path / "run", net(), resume_from=tmp_path / "plain.ckpt")

    assert steps(tmp_path / "run", "loss/auto") == list(
        range(saved + 1, _LAST + 1 if saved == 3 else 11)
    )


def test_resuming_into_another_directory_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _part(tmp_path / "first", Net())
    saved = _checkpoint(tmp_path / "first", 6)
    (tmp_path / "link").symlink_to(tmp_path)
    _part(tmp_path / "link" / "first", Net(), resume_from=saved)
    assert not [record for record in caplog.records if "two separate curves" in record.message]

    _part(tmp_path / "second", Net(), resume_from=saved)

    (said,) = [
        record.message for record in caplog.records if "two separate curves" in record.message
    ]
    assert "step 6" in said
    assert str(tmp_path / "first") in said
    assert str(tmp_path / "second") in said
    assert steps(tmp_path / "second", "loss/auto") == list(range(7, _LAST + 1))


def test_the_collectors_state_is_plain_and_loads_without_pickle(tmp_path: Path) -> None:
    _part(tmp_path / "run", Net())

    checkpoint = torch.load(_checkpoint(tmp_path / "run", 6), weights_only=True)
    state = checkpoint["mindsummary_lightning.SummaryCollector"]
    assert (state["step"], state["directories"]) == (6, [str(tmp_path / "run")])
    assert isinstance(state["graph"], str)
    assert checkpoint["mindsummary_lightning.learning_rates"] == [0.1]


def test_a_test_from_a_checkpoint_does_not_disturb_a_later_fit(tmp_path: Path) -> None:
    _part(tmp_path / "first", Net())
    collector = SummaryCollector(tmp_path / "second", 1)
    running = trainer(logger=False, callbacks=[collector])
    running.test(Net(), loader(1), ckpt_path=_checkpoint(tmp_path / "first", 6), verbose=False)
    running.fit(Net(), loader(3))

    assert steps(tmp_path / "second", "loss/auto") == [1, 2, 3]


def test_a_resume_with_nothing_left_to_do_records_no_step_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    _part(run, Net())
    before = points(run, "loss/auto")
    trainer_options: dict[str, Any] = {"max_steps": 9}
    _part(run, Net(), resume_from=_checkpoint(run, 9), **trainer_options)

    assert points(run, "loss/auto") == before
    assert len([name for name in files(run) if name.endswith("_MS")]) == 1


def test_the_last_step_of_the_run_before_is_not_collected_again() -> None:
    collector = StepCollector(CollectOptions(), Schedule(1), [], None, 5, is_rank_zero=True)
    collector.end_run(list)

    assert list(collector.drain(wait=True)) == []
