"""``TrainLineage`` and ``EvalLineage`` alone, with a record, a logger or a directory."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.callbacks import ModelCheckpoint

from mindsummary_lightning import (
    EvalLineage,
    MindInsightLogger,
    SummaryReader,
    SummaryRecord,
    TrainLineage,
)
from mindsummary_lightning.reading.lineage_text import RunLineage
from mindsummary_lightning.trainer.lineage_recorder import LineageRecorder
from tests.trainer.support import Net, files, kinds, loader, trainer


def _lineage(run: str | Path) -> RunLineage:
    return SummaryReader(run).lineage()


@pytest.mark.parametrize("target", ["directory", "path", "record", "logger"])
def test_both_record_into_a_directory_a_record_or_a_logger(tmp_path: Path, target: str) -> None:
    run = tmp_path / "run"
    logger = MindInsightLogger(tmp_path, name="", version="run")
    given: Any = {
        "directory": str(run),
        "path": run,
        "record": SummaryRecord(run),
        "logger": logger,
    }[target]
    running = trainer(
        logger=logger if target == "logger" else False,
        callbacks=[TrainLineage(given), EvalLineage(given)],
    )
    running.fit(Net(), loader(), loader(2))

    lineage = _lineage(run)
    assert lineage.dataset is not None
    assert (lineage.train.network, lineage.train.epoch) == ("Net", 1)
    assert lineage.train.loss is not None
    assert lineage.train.loss > 0
    assert lineage.evaluation.valid_dataset_size == 8
    assert json.loads(lineage.evaluation.metric or "{}").keys() == {"val/loss"}
    assert kinds(run).count("lineage") == 1
    facts = {"accelerator": "cpu", "planned_epochs": 1, "precision": "32-true"}
    assert lineage.custom.values.items() >= facts.items()
    assert ("status" in lineage.custom.values) == (target == "logger")


def test_a_killed_run_keeps_what_was_known_at_the_start_and_at_checkpoints(tmp_path: Path) -> None:
    found: list[RunLineage] = []

    class Look(ModelCheckpoint):
        def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
            found.append(_lineage(tmp_path / "run"))

    saving = Look(tmp_path / "checkpoints", every_n_train_steps=2)
    running = trainer(
        logger=False, callbacks=[TrainLineage(tmp_path / "run"), saving], enable_checkpointing=True
    )
    running.fit(Net(), loader())

    assert found[0].train is not None
    assert found[0].train.optimizer == "SGD"
    assert found[0].train.model_path == '{"ckpt": null}'
    paths = [json.loads(lineage.train.model_path)["ckpt"] for lineage in found]  # type: ignore[union-attr,arg-type]
    assert [path is not None for path in paths] == [False, False, True, True, True, True]
    assert found[2].train is not None
    assert found[2].train.model_size == os.path.getsize(saving.best_model_path)


def test_the_loss_of_accumulated_batches_is_the_loss_of_one(tmp_path: Path) -> None:
    losses: list[float] = []

    class Noting(Net):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = super().training_step(batch, batch_idx)
            losses.append(float(loss))
            return loss

    running = trainer(logger=False, callbacks=[TrainLineage(tmp_path)], accumulate_grad_batches=3)
    running.fit(Noting(), loader())

    assert _lineage(tmp_path).train.loss == pytest.approx(losses[-1])  # type: ignore[union-attr]


def test_the_loss_of_manual_optimization_is_the_last_one(tmp_path: Path) -> None:
    losses: list[float] = []

    class ByHand(Net):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = super().training_step(batch, batch_idx)
            losses.append(loss.item())
            self.manual_backward(loss)
            self.optimizers().step()  # type: ignore[union-attr]
            return loss

    trainer(logger=False, callbacks=[TrainLineage(tmp_path)]).fit(ByHand(), loader(3))

    assert _lineage(tmp_path).train.loss == pytest.approx(losses[-1])  # type: ignore[union-attr]


@pytest.mark.parametrize("method", ["validate", "test"])
def test_an_evaluation_alone_is_recorded(tmp_path: Path, method: str) -> None:
    running = trainer(logger=False, callbacks=[EvalLineage(tmp_path), TrainLineage(tmp_path)])
    getattr(running, method)(Net(), loader(3), verbose=False)

    lineage = _lineage(tmp_path)
    assert lineage.evaluation.valid_dataset_size == 12
    assert lineage.train is None


def test_what_cannot_be_recorded_is_logged_or_raised_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("odd model")

    monkeypatch.setattr(LineageRecorder, "training", fail)
    trainer(logger=False, callbacks=[TrainLineage(tmp_path)]).fit(Net(), loader())
    assert any("odd model" in record.message for record in caplog.records)

    with pytest.raises(ValueError, match="odd model"):
        trainer(logger=False, callbacks=[TrainLineage(tmp_path, raise_exception=True)]).fit(
            Net(), loader()
        )


def test_what_cannot_be_written_is_raised_if_asked_for(tmp_path: Path) -> None:
    class InTheWay(Net):
        def on_fit_start(self) -> None:
            (tmp_path / "run").write_text("mine")

    ours = TrainLineage(tmp_path / "run", raise_exception=True)
    with pytest.raises(OSError, match="run"):
        trainer(logger=False, callbacks=[ours]).fit(InTheWay(), loader(1))


@pytest.mark.parametrize("breaks", [False, True])
def test_a_fit_for_debugging_records_nothing_and_says_nothing(
    tmp_path: Path, breaks: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Saving(Net):
        def on_train_epoch_end(self) -> None:
            self.trainer.save_checkpoint(tmp_path / "mine.ckpt")
            if breaks:
                raise OSError("no space")

    ours = [TrainLineage(tmp_path / "run", True), EvalLineage(tmp_path / "run", True)]
    running = trainer(logger=False, callbacks=ours, fast_dev_run=True)
    with pytest.raises(OSError, match="no space") if breaks else nullcontext():
        running.fit(Saving(), loader(2), loader(2))

    assert files(tmp_path) == ["mine.ckpt"]
    assert [line for line in caplog.records if line.name.startswith("mindsummary")] == []


def test_a_validation_that_breaks_off_leaves_the_lineage_of_the_fit_before_it(
    tmp_path: Path,
) -> None:
    class Breaks(Net):
        def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
            raise OSError("no space")

    running = trainer(logger=False, callbacks=[TrainLineage(tmp_path)])
    running.fit(Net(), loader(2))
    trained = _lineage(tmp_path).train
    with pytest.raises(OSError, match="no space"):
        running.validate(Breaks(), loader(1), verbose=False)

    assert trained.network == "Net"  # type: ignore[union-attr]
    assert _lineage(tmp_path).train == trained


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="open files are listed in /proc on Linux"
)
@pytest.mark.parametrize("kind", [TrainLineage, EvalLineage])
def test_the_end_of_a_fit_lets_go_of_the_files(tmp_path: Path, kind: Any) -> None:
    trainer(logger=False, callbacks=[kind(tmp_path)]).fit(Net(), loader(1), loader(1))

    held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert kinds(tmp_path) == ["lineage"]
    assert [path for path in held if path.startswith(os.path.realpath(tmp_path))] == []


def test_the_lineage_is_written_again_behind_a_checkpoint_of_the_user(tmp_path: Path) -> None:
    losses: list[float | None] = []

    class Saving(Net):
        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            if batch_idx == 1:
                self.trainer.save_checkpoint(tmp_path / "mine.ckpt")

        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            losses.append(_lineage(tmp_path / "run").train.loss)  # type: ignore[union-attr]

    trainer(logger=False, callbacks=[TrainLineage(tmp_path / "run")]).fit(Saving(), loader(4))

    assert [loss is not None for loss in losses] == [False, False, True, True]


def test_a_callback_that_is_given_as_a_logger_is_named(tmp_path: Path) -> None:
    ours = EvalLineage(tmp_path / "run")

    with pytest.raises(TypeError, match="must be a logger, got a EvalLineage"):
        ours.log_metrics({"a": 1.0})
    with pytest.raises(AttributeError, match="'EvalLineage' object has no attribute 'other'"):
        ours.other()


def test_constructing_them_makes_nothing(tmp_path: Path) -> None:
    TrainLineage(tmp_path / "a")
    EvalLineage(tmp_path / "b")

    assert files(tmp_path) == []
