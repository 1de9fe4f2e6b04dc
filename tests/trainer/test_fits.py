"""A run is one fit: which calls share a run, and which get one of their own."""

from __future__ import annotations

import gc
import json
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

from mindsummary_lightning import (
    MindInsightLogger,
    SummaryCollector,
    SummaryReader,
    TrainLineage,
    tensor_summary,
)
from mindsummary_lightning.reading.run_tree import find_run_directories
from tests.trainer.support import Net, Saving, files, loader, points, run_script, steps, trainer


def _fit(logger: Any, batches: int, callbacks: list[Any] | None = None, **options: Any) -> Any:
    running = trainer(
        logger=logger, callbacks=callbacks or [], limit_train_batches=batches, **options
    )
    running.fit(Net(), loader(20))
    return running


def _summary_files(run: Path) -> list[str]:
    return [name for name in files(run) if name.endswith("_MS")]


def _versions(logger: MindInsightLogger) -> list[str]:
    return sorted(os.listdir(logger.root_dir))


@pytest.mark.slow
@pytest.mark.parametrize("with_collector", [True, False], ids=["pair", "logger alone"])
def test_each_fit_from_step_0_through_one_logger_is_a_run(
    tmp_path: Path, with_collector: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    logger = MindInsightLogger(tmp_path, name="")
    for batches in (20, 12, 6):
        _fit(logger, batches, [SummaryCollector(collect_freq=1)] if with_collector else None)

    assert _versions(logger) == ["version_0", "version_1", "version_2"]
    for version, batches in zip(_versions(logger), (20, 12, 6), strict=True):
        assert steps(tmp_path / version, "train/loss") == list(range(batches))
        if with_collector:
            assert steps(tmp_path / version, "loss/auto") == list(range(1, batches + 1))
    assert sum("holds an earlier fit" in record.message for record in caplog.records) == 2


@pytest.mark.parametrize("callback", [SummaryCollector, TrainLineage])
def test_the_checkpoints_of_a_second_fit_are_in_its_own_run(tmp_path: Path, callback: Any) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    for _ in range(2):
        ours = callback() if callback is SummaryCollector else callback(logger)
        _fit(logger, 2, [ours, ModelCheckpoint()], enable_checkpointing=True)

    for version in ("version_0", "version_1"):
        assert len(os.listdir(tmp_path / version / "checkpoints")) == 1
        train = SummaryReader(tmp_path / version).lineage().train
        assert json.loads(train.model_path or "")["ckpt"].startswith(
            str(tmp_path / version / "checkpoints")
        )


@pytest.mark.parametrize("with_collector", [True, False], ids=["pair", "logger alone"])
def test_a_second_fit_has_its_own_graph_lineage_and_hyper_parameters(
    tmp_path: Path, with_collector: bool
) -> None:
    class Logging(Saving):
        def on_train_start(self) -> None:
            logger.log_metrics({"mine": 1.0})

    logger = MindInsightLogger(tmp_path, name="")
    for width in (3, 4):
        callbacks = [SummaryCollector()] if with_collector else []
        trainer(logger=logger, callbacks=callbacks).fit(Logging(width), loader(3))

    for version, width in (("version_0", 3), ("version_1", 4)):
        reader = SummaryReader(tmp_path / version)
        assert (reader.graph() is not None) == with_collector
        assert reader.lineage().custom is not None
        assert reader.lineage().custom.values["width"] == width  # type: ignore[union-attr]
        assert reader.scalars("mine").steps.tolist() == [0]


@pytest.mark.slow
@pytest.mark.parametrize("owner", ["logger", "collector"])
def test_in_a_given_directory_a_second_fit_replaces_the_curve_of_the_first_with_one_warning(
    tmp_path: Path, owner: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    logger = MindInsightLogger(tmp_path, name="", version="run") if owner == "logger" else False
    collector = SummaryCollector(None if owner == "logger" else run, collect_freq=1)
    for batches in (20, 12, 6):
        _fit(logger, batches, [collector])

    assert steps(run, "loss/auto") == [1, 2, 3, 4, 5, 6]
    assert len([name for name in files(run) if name.endswith("_MS")]) == 3
    warnings = [record.message for record in caplog.records if "earlier fit" in record.message]
    assert len(warnings) == 2
    assert str(run) in warnings[0]


@pytest.mark.slow
def test_two_fits_of_one_trainer_are_one_run_and_nothing_keeps_the_trainer(tmp_path: Path) -> None:
    runs, link = tmp_path / "runs", tmp_path / "link"
    runs.mkdir()
    link.symlink_to(runs)
    logger = MindInsightLogger(link, name="")
    running = trainer(
        logger=logger, callbacks=[SummaryCollector(collect_freq=1)], limit_train_batches=3
    )
    net = Net()
    running.fit(net, loader())
    logger.log_hyperparams({"between": 1})
    running.fit_loop.max_epochs = running.fit_loop.max_epochs + 1
    running.fit(net, loader())
    assert SummaryReader(logger.log_dir).lineage().custom.values["between"] == 1  # type: ignore[union-attr]

    assert _versions(logger) == ["version_0"]
    assert steps(logger.log_dir, "loss/auto") == [1, 2, 3, 4, 5, 6]
    assert len([name for name in files(logger.log_dir) if name.endswith("_MS")]) == 1
    kept = weakref.ref(running)
    del running, net
    gc.collect()
    assert kept() is None


def test_an_evaluation_does_not_say_how_the_fit_before_it_ended(tmp_path: Path) -> None:
    class Broken(Net):
        def on_train_end(self) -> None:
            raise RuntimeError

    logger = MindInsightLogger(tmp_path, name="")
    with pytest.raises(RuntimeError):
        trainer(logger=logger, callbacks=[SummaryCollector()]).fit(Broken(), loader(3))
    trainer(logger=logger, callbacks=[SummaryCollector()]).test(Net(), loader(1), verbose=False)

    assert SummaryReader(logger.log_dir).lineage().custom.values["status"] == "failed"  # type: ignore[union-attr]


def _callbacks(kind: str, own_dir: Path) -> list[Any]:
    return {
        "pair": [SummaryCollector(collect_freq=1)],
        "logger alone": [],
        "collector apart": [SummaryCollector(own_dir, collect_freq=1)],
    }[kind]


def _resume(logger: Any, checkpoint: Path, callbacks: list[Any]) -> None:
    running = trainer(logger=logger, callbacks=callbacks, limit_train_batches=5, max_epochs=2)
    running.fit(Net(), loader(20), ckpt_path=checkpoint)


@pytest.mark.parametrize(
    ("kind", "saved_by"),
    [
        pytest.param("pair", "ModelCheckpoint", marks=pytest.mark.slow),
        pytest.param("pair", "ModelCheckpoint elsewhere", marks=pytest.mark.slow),
        ("pair", "hand elsewhere"),
        ("logger alone", "ModelCheckpoint elsewhere"),
        pytest.param("logger alone", "hand", marks=pytest.mark.slow),
        pytest.param("collector apart", "hand elsewhere", marks=pytest.mark.slow),
        ("logger alone", "hand elsewhere"),
    ],
)
def test_a_fit_that_resumes_from_its_runs_checkpoint_stays_in_the_run(
    tmp_path: Path, kind: str, saved_by: str
) -> None:
    logger = MindInsightLogger(tmp_path, name="exp")
    folder = tmp_path / "saved" if "elsewhere" in saved_by else None
    saving = ModelCheckpoint(folder, "{step}", every_n_train_steps=2, save_top_k=-1)
    callbacks = _callbacks(kind, tmp_path / "apart")
    if "hand" in saved_by:
        checkpoint = (folder or Path(logger.log_dir)) / "mine.ckpt"
        _fit(logger, 5, callbacks).save_checkpoint(checkpoint)
    else:
        _fit(logger, 5, [*callbacks, saving], enable_checkpointing=True)
        checkpoint = Path(saving.dirpath or "", "step=2.ckpt")
    before = points(logger.log_dir, "train/loss")
    _resume(logger, checkpoint, callbacks)

    assert _versions(logger) == ["version_0"]
    recorded = steps(logger.log_dir, "train/loss")
    assert recorded == sorted(set(recorded))
    assert recorded[-1] >= 8
    assert before[:1] == points(logger.log_dir, "train/loss")[:1]


def test_validating_before_and_testing_behind_a_fit_is_one_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    net = Net()
    trainer(logger=logger, callbacks=[SummaryCollector()]).validate(net, loader(1), verbose=False)
    trainer(logger=logger, callbacks=[SummaryCollector()]).fit(net, loader(3))
    trainer(logger=logger, callbacks=[SummaryCollector()]).test(net, loader(1), verbose=False)
    trainer(logger=logger, callbacks=[SummaryCollector()]).predict(
        net, [loader(1).dataset[0][0][None]]
    )

    assert _versions(logger) == ["version_0"]
    assert {"val/loss", "train/loss", "test/loss"} <= set(
        SummaryReader(logger.log_dir).tags()["scalar"]
    )
    assert not [record for record in caplog.records if "earlier fit" in record.message]


@pytest.mark.parametrize("with_collector", [True, False], ids=["pair", "logger alone"])
@pytest.mark.parametrize("call", ["predict", "test"])
def test_an_evaluation_that_records_nothing_leaves_nothing(
    tmp_path: Path, call: str, with_collector: bool
) -> None:
    class Silent(Net):
        def __init__(self) -> None:
            super().__init__()
            self.save_hyperparameters({"width": 3})

        def test_step(self, batch: Any, batch_idx: int) -> None:
            self(batch[0])

        def predict_step(self, batch: Any, batch_idx: int) -> Any:
            return self(batch[0])

    runs = tmp_path / "runs"
    for _ in range(2):
        running = trainer(
            logger=MindInsightLogger(runs),
            callbacks=[SummaryCollector()] if with_collector else [],
            enable_checkpointing=True,
        )
        getattr(running, call)(Silent(), loader(1))

    assert not runs.exists()


class _Another(L.Callback):
    """Another run begins while this one trains."""

    def on_train_start(self, trainer: Any, *_: Any) -> None:
        MindInsightLogger(trainer.logger.save_dir, name="").log_metrics({"another": 1.0})


@pytest.mark.parametrize("is_taken", [False, True])
def test_the_number_of_an_unused_run_is_used_by_the_fit_behind_it_if_it_is_free(
    tmp_path: Path, is_taken: bool, caplog: pytest.LogCaptureFixture
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    running = trainer(logger=logger, callbacks=[SummaryCollector()])
    running.predict(Net(), [loader(1).dataset[0][0][None]])
    if is_taken:
        _Another().on_train_start(running)
    running.fit(Net(), loader(2))

    assert _versions(logger) == ["version_0", "version_1"][: 1 + is_taken]
    assert "earlier fit" not in caplog.text


def test_the_number_of_a_second_fit_is_its_own_before_it_records(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    _fit(logger, 2, [_Another()])
    (tmp_path / "version_5").mkdir()  # a number is that after the highest
    _fit(logger, 2, [_Another()])

    assert (logger.version, _versions(logger)) == (
        6,
        [f"version_{number}" for number in (0, 1, 5, 6, 7)],
    )


def test_a_second_fit_into_a_given_directory_shows_its_own_graph(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="", version="run")
    for width in (3, 5):
        net = Net()
        net.first, net.second, net.example_input_array = (
            nn.Linear(4, width),
            nn.Linear(width, 2),
            torch.zeros(1, 4),
        )
        trainer(logger=logger, limit_train_batches=1).fit(net, loader())

    graph = SummaryReader(logger.log_dir).graph()
    assert (5, 4) in [parameter.type.shape for parameter in graph.parameters]  # type: ignore[union-attr]


def test_a_fit_that_breaks_off_and_is_started_again_is_a_run_of_its_own(tmp_path: Path) -> None:
    class Stop(L.Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 3:
                raise RuntimeError("mine")

    logger = MindInsightLogger(tmp_path, name="")
    with pytest.raises(RuntimeError, match="mine"):
        _fit(logger, 5, [SummaryCollector(collect_freq=1), Stop()])
    _fit(logger, 5, [SummaryCollector(collect_freq=1)])

    assert steps(tmp_path / "version_0", "loss/auto") == [1, 2, 3]
    assert steps(tmp_path / "version_1", "loss/auto") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("of_logger", "of_collector"), [(None, 2000), (2000, None), (2000, 2000)])
def test_the_files_options_of_a_collector_count_beside_a_logger(
    tmp_path: Path, of_logger: int | None, of_collector: int | None
) -> None:
    logger = MindInsightLogger(tmp_path, max_file_size=of_logger)
    _fit(logger, 6, [SummaryCollector(collect_freq=1, max_file_size=of_collector)])

    assert len([name for name in files(logger.log_dir) if name.endswith("_MS")]) > 1
    assert steps(logger.log_dir, "loss/auto") == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("option", "first", "second"),
    [
        ("max_file_size", 1000, 2000),
        ("export_options", {"tensor_format": "npy"}, {"tensor_format": None}),
    ],
)
def test_file_options_that_differ_are_refused(
    tmp_path: Path, option: str, first: Any, second: Any
) -> None:
    logger = MindInsightLogger(tmp_path, **{option: first})

    with pytest.raises(ValueError, match=f"{option}.*MindInsightLogger.*SummaryCollector"):
        _fit(logger, 1, [SummaryCollector(**{option: second})])
    _fit(logger, 1, [SummaryCollector(**{option: first})])


_START = """
import os, signal, sys
import lightning as L
from mindsummary_lightning import MindInsightLogger, SummaryCollector
from tests.trainer.support import Net, loader, trainer

class Killed(L.Callback):
    def on_fit_start(self, trainer, pl_module):
        os.kill(os.getpid(), signal.SIGKILL)

def start(kind):
    callbacks = {"pair": [SummaryCollector()], "killed": [Killed()]}.get(kind, [])
    running = trainer(logger=MindInsightLogger(sys.argv[1] + "/runs", name=""), callbacks=callbacks,
                      enable_checkpointing=True)
    if kind == "predict":
        running.predict(Net(), [loader(1).dataset[0][0][None]])
    else:
        running.fit(Net(), loader(3))

ready, go = os.pipe()
pairs = int(sys.argv[2])
for kind in ["pair", "alone"] * pairs + ["predict", "killed"]:
    if not os.fork():
        os.close(go)
        os.read(ready, 1)  # ends when the parent lets all of them go
        start(kind)
        os._exit(0)
os.close(go)
codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2 * pairs + 2)]
assert sorted(codes) == [-signal.SIGKILL] + [0] * (2 * pairs + 1), codes
"""


@pytest.mark.slow
def test_of_runs_that_start_together_each_has_a_directory_and_an_unused_one_leaves_none(
    tmp_path: Path, times: Callable[[int, int], int]
) -> None:
    pairs = times(2, 10)
    done = run_script(_START, tmp_path, pairs)
    assert done.returncode == 0, done.stderr[-2000:]

    # The one that was killed before its first value has an empty directory, which is not listed.
    runs = tmp_path / "runs"
    assert len(os.listdir(runs)) == 2 * pairs + 1
    found = list(find_run_directories(str(runs)))
    assert len(found) == 2 * pairs
    for run in found:
        assert steps(run, "train/loss") == [0, 1, 2]
        assert len(os.listdir(Path(run, "checkpoints"))) == 1


def test_a_callback_that_has_saved_saves_the_next_fit_in_the_first_ones_directory_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger, saving = MindInsightLogger(tmp_path, name=""), ModelCheckpoint(filename="{step}")
    for batches in (3, 2):
        _fit(logger, batches, [saving], enable_checkpointing=True)

    assert [path.parent.parent.name for path in tmp_path.rglob("*.ckpt")] == ["version_0"]
    (said,) = [record.message for record in caplog.records if "already saved" in record.message]
    assert said.startswith("this ModelCheckpoint has already saved ")
    assert "step=3.ckpt in an earlier fit" in said


@pytest.mark.parametrize("first", ["run", "moved"])
def test_an_evaluation_by_new_objects_adds_no_file_to_the_fits(tmp_path: Path, first: str) -> None:
    def pair(version: str) -> dict[str, Any]:
        logger = MindInsightLogger(tmp_path, name="", version=version)
        return {"logger": logger, "callbacks": [SummaryCollector()]}

    trainer(**pair(first), limit_train_batches=3).fit(Net(), loader())
    # a directory that was moved is one in which this process has recorded nothing
    run = (tmp_path / first).rename(tmp_path / "run")
    before = _summary_files(run)
    trainer(**pair("run")).test(Net(), loader(1), verbose=False)

    assert _summary_files(run) == before
    assert steps(run, "train/loss") == [0, 1, 2]
    assert len(points(run, "test/loss")) == 1


def test_hyper_parameters_of_a_module_that_is_tested_in_a_fits_run_are_not_the_fits(
    tmp_path: Path,
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    trainer(logger=logger, limit_train_batches=2).fit(Saving(3), loader())
    trainer(logger=logger).test(Saving(5), loader(1), verbose=False)

    assert SummaryReader(logger.log_dir).lineage().custom.values["width"] == 3  # type: ignore[union-attr]


def test_export_options_of_a_collector_count_beside_a_logger(tmp_path: Path) -> None:
    net = Net(probe=lambda module, x: tensor_summary("in", x))
    logger = MindInsightLogger(tmp_path, name="")
    collector = SummaryCollector(export_options={"tensor_format": "npy"})
    trainer(logger=logger, callbacks=[collector], limit_train_batches=1).fit(net, loader())

    assert [path.name for path in tmp_path.rglob("*.npy")] == ["in_1.npy"]


@pytest.mark.usefixtures("only_new_garbage")
@pytest.mark.parametrize("fits", [1, 2])
def test_nothing_keeps_a_trainer_or_a_parameter_whose_fit_has_ended(
    tmp_path: Path, fits: int
) -> None:
    logger = MindInsightLogger(tmp_path)
    collector = SummaryCollector(
        collect_freq=1, collect_gradients=True, collect_parameter_statistics=True
    )
    held: list[weakref.ref[Any]] = []
    for _ in range(fits):
        running, net = trainer(logger=logger, callbacks=[collector], max_epochs=1), Net()
        running.fit(net, loader(2))
        held += [weakref.ref(each) for each in (running, net, net.first.weight)]
        for name in ("log", "log_dict"):  # Lightning gives them to a callback
            vars(collector).pop(name, None)
        del running, net
    gc.collect()

    assert [reference() for reference in held] == [None] * 3 * fits


def test_a_fit_that_is_not_recorded_saves_no_state_of_a_recorded_one(tmp_path: Path) -> None:
    collector, saved = SummaryCollector(collect_freq=1), tmp_path / "mine.ckpt"
    logger = MindInsightLogger(tmp_path / "runs")
    trainer(logger=logger, callbacks=[collector]).fit(Net(), loader(3))
    running = trainer(logger=False, callbacks=[collector])
    running.fit(Net(), loader(2))
    running.save_checkpoint(saved)

    kept = torch.load(saved, weights_only=False)
    assert [key for key in kept if key.startswith("mindsummary_lightning")] == []
    assert steps(logger.log_dir, "loss/auto") == [1, 2, 3]
