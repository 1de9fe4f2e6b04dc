"""How often evaluations are written: at once, not again within ten seconds, and never lost."""

from __future__ import annotations

import json
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning as L
import pytest
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities import CombinedLoader

from mindsummary_lightning import (
    EvalLineage,
    MindInsightLogger,
    SummaryCollector,
    SummaryReader,
    TrainLineage,
)
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.trainer import collector, lineage_callbacks
from mindsummary_lightning.trainer.lineage_recorder import LineageRecorder
from tests.support import Clock, lineage_paths
from tests.trainer.support import Net, loader, trainer


def _metrics(run: str | Path) -> dict[str, float]:
    evaluation = SummaryReader(run).lineage().evaluation
    return {} if evaluation is None else json.loads(evaluation.metric or "{}")


class Counting(Net):
    """Its metric is the number of validations, the sanity check not counted."""

    def __init__(self) -> None:
        super().__init__()
        self.validations = 0

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.log("validations", float(self.validations))

    def on_validation_start(self) -> None:
        self.validations += not self.trainer.sanity_checking


class Looking(ModelCheckpoint):
    """Saves after each validation.

    Keeps what is recorded when each batch but the first begins.
    """

    def __init__(self, directory: Path, run: Path) -> None:
        super().__init__(directory)
        self.run, self.found = run, [{}]

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step:
            self.found.append(_metrics(self.run))


def test_evaluations_wait_ten_seconds_after_others(tmp_path: Path) -> None:
    clock = [0.0]
    with closing(RunRecorder(str(tmp_path))) as record:
        lineage = LineageRecorder(record, timer=lambda: clock[0])
        found = []
        for number, clock[0] in enumerate((100.0, 101.0, 109.9, 110.0, 119.0)):
            metrics = {"a": float(number)}
            lineage.evaluation_ends(
                SimpleNamespace(
                    callback_metrics=metrics,
                    testing=False,
                    num_val_batches=[1],
                    val_dataloaders=None,
                )
            )
            found.append(_metrics(tmp_path)["a"])
        lineage.flush()
        found.append(_metrics(tmp_path)["a"])
        (path,) = lineage_paths(tmp_path)
        path.unlink()
        lineage.flush()
        assert not lineage_paths(tmp_path)  # nothing waits any more

    assert found == [0, 0, 0, 3, 3, 4]


@pytest.mark.parametrize("target", ["own directory", "logger", "callback"])
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_the_last_evaluation_of_a_run_is_recorded(
    tmp_path: Path, target: str, is_interrupted: bool
) -> None:
    class Stopping(Counting):
        def on_train_epoch_start(self) -> None:
            if is_interrupted and self.current_epoch == 3:
                raise OSError("the disk of the data is gone")

    run = tmp_path / "run"
    logger = MindInsightLogger(tmp_path, name="", version="run")
    no_train_lineage = {"collect_train_lineage": False}
    callback: Any = {
        "own directory": SummaryCollector(run, collect_specified_data=no_train_lineage),
        "logger": SummaryCollector(collect_specified_data=no_train_lineage),
        "callback": EvalLineage(run),
    }[target]
    running = trainer(
        logger=logger if target == "logger" else False, callbacks=[callback], max_epochs=4
    )
    network = Stopping()
    if is_interrupted:
        with pytest.raises(OSError, match="the data is gone"):
            running.fit(network, loader(), loader(2))
    else:
        running.fit(network, loader(), loader(2))

    assert network.validations == (3 if is_interrupted else 4)
    assert _metrics(run) == {"validations": network.validations}


@pytest.mark.parametrize("kind", [SummaryCollector, EvalLineage])
def test_an_evaluation_that_waits_is_recorded_when_ten_seconds_have_passed(
    tmp_path: Path, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    for module in (collector, lineage_callbacks):
        monkeypatch.setattr(module, "LineageRecorder", partial(LineageRecorder, timer=clock))
    run, found = tmp_path / "run", []

    class TenSecondsLater(Counting):
        def on_train_epoch_start(self) -> None:
            if self.current_epoch == 2:
                found.append(_metrics(run))
                clock.now += 10

        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            if self.current_epoch == 2:
                found.append(_metrics(run))

    trainer(logger=False, callbacks=[kind(run)], max_epochs=3).fit(
        TenSecondsLater(), loader(1), loader(1)
    )

    assert found == [{"validations": 1}, {"validations": 2}]


def test_an_evaluation_that_waits_is_recorded_with_the_next_checkpoint(tmp_path: Path) -> None:
    looking = Looking(tmp_path / "checkpoints", tmp_path / "run")
    collector = SummaryCollector(tmp_path / "run")
    running = trainer(
        logger=False, callbacks=[collector, looking], enable_checkpointing=True, max_epochs=3
    )
    running.fit(Counting(), loader(1), loader(1))

    assert [metrics.get("validations") for metrics in looking.found] == [None, 1, 2]


def test_metrics_of_all_evaluations_are_metrics_and_the_data_set_is_that_of_the_last(
    tmp_path: Path,
) -> None:
    running = trainer(logger=False, callbacks=[SummaryCollector(tmp_path)])
    running.fit(Net(), loader(), loader(2))
    running.test(Net(), loader(5), verbose=False)

    lineage = SummaryReader(tmp_path).lineage()
    assert lineage.evaluation.valid_dataset_size == 20
    assert _metrics(tmp_path).keys() == {"val/loss", "test/loss"}
    assert "val/loss" not in lineage.custom.values


def test_a_test_in_another_process_adds_its_metrics(tmp_path: Path) -> None:
    """Another collector in the same directory stands for the other process: it shares no memory."""
    trainer(logger=False, callbacks=[SummaryCollector(tmp_path)]).fit(Net(), loader(), loader(2))
    validated = _metrics(tmp_path)["val/loss"]
    trainer(logger=False, callbacks=[EvalLineage(tmp_path)]).test(Net(), loader(5), verbose=False)

    assert _metrics(tmp_path).keys() == {"val/loss", "test/loss"}
    assert _metrics(tmp_path)["val/loss"] == validated


def test_a_resumed_run_keeps_the_metrics_of_its_test_and_has_its_newest_validation(
    tmp_path: Path,
) -> None:
    first = trainer(logger=False, callbacks=[SummaryCollector(tmp_path / "run")])
    first.fit(Counting(), loader(), loader(2))
    first.test(Net(), loader(5), verbose=False)
    tested = _metrics(tmp_path / "run")["test/loss"]
    first.save_checkpoint(tmp_path / "saved.ckpt")
    second = trainer(logger=False, callbacks=[SummaryCollector(tmp_path / "run")], max_epochs=3)
    second.fit(Counting(), loader(), loader(2), ckpt_path=tmp_path / "saved.ckpt")

    assert _metrics(tmp_path / "run") == {"test/loss": tested, "validations": 2.0}


@pytest.mark.parametrize("kind", [SummaryCollector, EvalLineage])
def test_a_new_fit_in_the_directory_has_no_metric_of_the_one_before(
    tmp_path: Path, kind: Any
) -> None:
    first = trainer(logger=False, callbacks=[kind(tmp_path)])
    first.fit(Net(), loader(), loader(2))
    first.test(Net(), loader(5), verbose=False)
    trainer(logger=False, callbacks=[kind(tmp_path)]).fit(Counting(), loader(), loader(2))

    assert _metrics(tmp_path) == {"validations": 1.0}


@pytest.mark.parametrize(("mode", "size"), [("sequential", 20), ("min_size", None)])
def test_loaders_that_are_read_side_by_side_have_no_size_in_all(
    tmp_path: Path, mode: Any, size: int | None
) -> None:
    class Silently(Net):
        def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
            self.log("a", 1.0, batch_size=1)

    validation = CombinedLoader({"a": loader(3), "b": loader(2)}, mode)
    trainer(logger=False, callbacks=[SummaryCollector(tmp_path)]).validate(
        Silently(), validation, verbose=False
    )

    assert SummaryReader(tmp_path).lineage().evaluation.valid_dataset_size == size


class Prune(L.Callback):
    """What Optuna's callback does with a trial that is not worth going on."""

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        raise pytest.importorskip("optuna").TrialPruned("not worth it")


@pytest.mark.parametrize("collector_is", ["first", "last", "beside a logger", "lineage callbacks"])
def test_a_pruned_trial_has_its_last_metric_its_epochs_and_its_status(
    tmp_path: Path, collector_is: str
) -> None:
    logger = (
        MindInsightLogger(tmp_path, version="run", name="")
        if collector_is in _WITH_LOGGER
        else False
    )
    ours: list[Any] = [SummaryCollector(None if logger else tmp_path / "run")]
    if collector_is == "lineage callbacks":
        ours = [TrainLineage(logger), EvalLineage(logger)]  # type: ignore[arg-type]
    callbacks = [*ours, Prune()] if collector_is == "first" else [Prune(), *ours]
    with pytest.raises(pytest.importorskip("optuna").TrialPruned):
        trainer(logger=logger, callbacks=callbacks, max_epochs=3).fit(
            Counting(), loader(3), loader(2)
        )

    lineage = SummaryReader(tmp_path / "run").lineage()
    assert _metrics(tmp_path / "run") == {"validations": 1.0}
    assert lineage.train.epoch == 1
    assert lineage.custom.values["status"] == "pruned"


_WITH_LOGGER = ("beside a logger", "lineage callbacks")


@pytest.mark.parametrize("kind", [SummaryCollector, EvalLineage])
def test_a_sanity_check_is_no_evaluation(tmp_path: Path, kind: Any) -> None:
    options = {"num_sanity_val_steps": 2, "check_val_every_n_epoch": 2}
    running = trainer(logger=False, callbacks=[kind(tmp_path)], **options)
    running.fit(Net(), loader(2), loader(2))
    assert _metrics(tmp_path) == {}

    running.validate(Net(), loader(3), verbose=False)
    assert _metrics(tmp_path).keys() == {"val/loss"}
    assert SummaryReader(tmp_path).lineage().evaluation.valid_dataset_size == 12


def test_a_test_behind_a_validation_that_waits_is_recorded_with_its_own_data_set(
    tmp_path: Path,
) -> None:
    clock = Clock()
    with closing(RunRecorder(str(tmp_path))) as record:
        lineage = LineageRecorder(record, timer=clock)
        found = []
        for kind, batches in (("val", 1), ("val", 2), ("test", 3)):
            running = SimpleNamespace(
                callback_metrics={},
                testing=kind == "test",
                num_val_batches=[batches],
                num_test_batches=[batches],
                val_dataloaders=loader(batches),
                test_dataloaders=loader(batches),
            )
            lineage.evaluation_begins(running)
            for number, batch in enumerate(loader(batches)):
                lineage.evaluation_batch(running, batch, number, 0)
            running.callback_metrics[f"{kind}/loss"] = float(batches)
            lineage.evaluation_ends(running)
            evaluation = SummaryReader(tmp_path).lineage().evaluation
            found.append((_metrics(tmp_path), evaluation.valid_dataset_size))
        lineage.end()
        evaluation = SummaryReader(tmp_path).lineage().evaluation
        found.append((_metrics(tmp_path), evaluation.valid_dataset_size))

    assert found == [
        ({"val/loss": 1.0}, 4),
        ({"val/loss": 1.0}, 4),
        ({"val/loss": 2.0}, 8),
        ({"val/loss": 2.0, "test/loss": 3.0}, 12),
    ]


def test_an_evaluation_that_breaks_off_in_a_batch_has_no_metric(tmp_path: Path) -> None:
    class Breaks(Counting):
        def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
            self.log("validations", 1.0, on_step=True, on_epoch=True)
            if batch_idx == 1:
                raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        trainer(logger=False, callbacks=[SummaryCollector(tmp_path)]).fit(
            Breaks(), loader(3), loader(2)
        )

    assert _metrics(tmp_path) == {}
    assert SummaryReader(tmp_path).lineage().train.epoch == 1  # its batches are trained


def test_an_epoch_that_breaks_off_is_not_done(tmp_path: Path) -> None:
    class Breaks(Net):
        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            if self.current_epoch == 1 and batch_idx == 1:
                raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        trainer(logger=False, callbacks=[SummaryCollector(tmp_path)], max_epochs=3).fit(
            Breaks(), loader(3)
        )

    assert SummaryReader(tmp_path).lineage().train.epoch == 1
