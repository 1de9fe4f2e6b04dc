"""Which run a fit belongs to.

Asked of the Trainer, the directory and what this process has recorded there.
"""

from __future__ import annotations

import logging
import os
import pickle
import shlex
import shutil
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from lightning.pytorch.tuner import Tuner

from mindsummary_lightning import (
    MindInsightLogger,
    SummaryCollector,
    SummaryReader,
    filter_summary_lineage,
)
from mindsummary_lightning.trainer.trainer_frames import resume_path
from tests.trainer.support import (
    NAMESPACES,
    Net,
    Saving,
    files,
    loader,
    module_of,
    points,
    steps,
    trainer,
)

_KINDS = ("collector", "pair", "logger")
_QUICK_IF_PAIR = [
    "pair",
    *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("collector", "logger")),
]


def _fit(kind: str, run: Path, batches: int, module: Any = None, **options: Any) -> Any:
    """A training that a new logger, collector or pair of them records into one given directory."""
    callbacks: list[Any] = []
    if kind != "logger":
        callbacks = [SummaryCollector(run if kind == "collector" else None, collect_freq=1)]
    callbacks += options.pop("callbacks", [])
    logger = (
        MindInsightLogger(run.parent, name="", version=run.name) if kind != "collector" else False
    )
    running = trainer(
        logger=logger, callbacks=callbacks, **{"limit_train_batches": batches, **options}
    )
    running.fit(module or Net(), loader(20))
    return running


def _curve(kind: str, run: Path) -> list[tuple[int, float]]:
    return points(run, "train/loss" if kind == "logger" else "loss/auto")


def _summary_files(run: Path) -> list[str]:
    return [name for name in files(run) if name.endswith("_MS")]


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if "earlier fit" in record.message]


@pytest.mark.parametrize("kind", _QUICK_IF_PAIR)
def test_a_second_fit_into_a_directory_by_new_objects_begins_again_with_one_warning(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    _fit(kind, run, 10)
    first = _curve(kind, run)
    _fit(kind, run, 5)
    second = _curve(kind, run)

    assert len(first) == 10
    assert [step for step, _ in second] == [step for step, _ in first[:5]]
    assert not {value for _, value in second} & {value for _, value in first}
    assert len(_summary_files(run)) == 2
    (said,) = _said(caplog)
    assert str(run) in said


def test_a_logger_and_a_collector_in_one_directory_begin_one_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run, link = tmp_path / "run", tmp_path / "link"
    link.symlink_to(tmp_path)
    for root, batches in ((tmp_path, 4), (link, 3)):
        logger = MindInsightLogger(root, name="", version="run")
        callbacks = [SummaryCollector(root / "run", collect_freq=1)]
        trainer(logger=logger, callbacks=callbacks, limit_train_batches=batches).fit(
            Net(), loader()
        )

    assert steps(run, "loss/auto") == [1, 2, 3]
    assert steps(run, "train/loss") == [0, 1, 2]
    assert len(_summary_files(run)) == 2
    assert len(_said(caplog)) == 1


@pytest.mark.parametrize("kind", _QUICK_IF_PAIR)
def test_a_fit_that_goes_on_after_another_trainers_does_not_join_that_ones_curve(
    tmp_path: Path, kind: str
) -> None:
    run = tmp_path / "run"
    first = _fit(kind, run, 4)
    _fit(kind, run, 8)
    first.fit_loop.max_epochs += 1
    first.fit(Net(), loader(20))

    assert len(_summary_files(run)) == 3
    # four of the second training, and the four that follow in the first one
    assert len(_curve(kind, run)) == 8


@pytest.mark.parametrize("kind", _KINDS)
def test_a_fit_that_fails_before_its_first_step_leaves_the_directory_to_the_next(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Net):
        def on_train_start(self) -> None:
            raise RuntimeError("mine")

    run = tmp_path / "run"
    with pytest.raises(RuntimeError, match="mine"):
        _fit(kind, run, 3, module=Broken())
    _fit(kind, run, 3)

    assert len(_curve(kind, run)) == 3
    assert not _said(caplog)


@pytest.mark.parametrize("kind", _KINDS)
def test_a_fit_that_could_not_even_end_is_not_what_another_trainer_goes_on_with(
    tmp_path: Path, kind: str
) -> None:
    class Broken(L.Callback):
        def on_train_end(self, *_: Any) -> None:
            raise RuntimeError("first")

        def on_exception(self, *_: Any) -> None:
            raise RuntimeError("second")

    run = tmp_path / "run"
    with pytest.raises(RuntimeError, match="second"):
        _fit(kind, run, 3, callbacks=[Broken()])
    _fit(kind, run, 2)

    assert len(_curve(kind, run)) == 2


@pytest.mark.parametrize("kind", _KINDS)
def test_a_directory_that_was_removed_holds_no_earlier_fit(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    logger = MindInsightLogger(tmp_path, name="", version="run") if kind != "collector" else False
    ours = [SummaryCollector(run if kind == "collector" else None)] if kind != "logger" else []
    for batches in (3, 2):
        shutil.rmtree(run, ignore_errors=True)
        net = Net()
        net.example_input_array = torch.zeros(1, 4)
        trainer(logger=logger, callbacks=ours, limit_train_batches=batches).fit(net, loader())

    assert len(_curve(kind, run)) == 2
    assert SummaryReader(run).graph() is not None
    assert not _said(caplog)


class _Placed(MindInsightLogger):
    @property
    def root_dir(self) -> str:
        return super().root_dir


@pytest.mark.parametrize("kind", [MindInsightLogger, _Placed])
def test_a_relative_directory_lies_where_the_logger_was_made(
    kind: type[MindInsightLogger],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level("INFO")
    logger = kind("runs", name="", version="run")
    for folder, batches in ((tmp_path / "elsewhere", 4), (tmp_path, 2)):
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        trainer(logger=logger, limit_train_batches=batches).fit(Net(), loader())

    assert len(_curve("logger", tmp_path / "runs" / "run")) == 2
    assert len(_said(caplog)) == 1
    assert f"view {shlex.quote(str(tmp_path / 'runs'))}" in caplog.text
    assert files(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("kind", _QUICK_IF_PAIR)
def test_a_tuner_begins_no_fit(tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    run = tmp_path / "run"
    _fit(kind, run, 4)
    logger = MindInsightLogger(tmp_path, name="", version="run") if kind != "collector" else False
    ours = [SummaryCollector(run if kind == "collector" else None)] if kind != "logger" else []
    running = trainer(logger=logger, callbacks=ours, default_root_dir=tmp_path)
    Tuner(running).lr_find(Net(), loader(), num_training=3)
    assert not _said(caplog)
    running.fit(Net(), loader())

    assert len(_said(caplog)) == 1


@pytest.mark.parametrize(
    ("version", "runs", "steps_of_first"),
    [(None, ["version_0", "version_1"], 4), (0, ["version_0"], 2)],
)
def test_copies_of_a_logger_in_processes_of_their_own_have_a_run_each_and_a_given_run_begins_again(
    tmp_path: Path, version: int | None, runs: list[str], steps_of_first: int,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    # A directory that was moved is one in which this process has recorded nothing.
    root, place = tmp_path / "runs", tmp_path / "first"
    place.mkdir()
    logger = MindInsightLogger(root, name="", version=version)
    for batches in (4, 2):
        root.unlink(missing_ok=True)
        place = place.rename(tmp_path / f"of_{batches}")
        root.symlink_to(place)
        sent = pickle.dumps(logger)
        trainer(logger=pickle.loads(sent), limit_train_batches=batches).fit(Net(), loader())

    assert sorted(os.listdir(root)) == runs
    assert len(_curve("logger", root / "version_0")) == steps_of_first
    assert len(_said(caplog)) == len(runs) - 1


def test_a_fit_that_begins_again_shows_no_lineage_of_the_earlier_one(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for custom in ({"note": "first", "gone": 1}, {"note": "second"}):
        collector = SummaryCollector(run, custom_lineage_data=custom)
        running = trainer(logger=False, callbacks=[collector], limit_train_batches=2)
        running.fit(net := Net(), loader())
        if "gone" in custom:
            running.test(net, loader(1), verbose=False)

    (shown,) = filter_summary_lineage(str(tmp_path))["object"]
    assert (shown["model_lineage"]["metric"], shown["model_lineage"]["user_defined"]["note"]) == (
        {},
        "second",
    )
    assert "gone" not in shown["model_lineage"]["user_defined"]


@pytest.mark.slow
@pytest.mark.parametrize("callback", ["setup", "on_fit_start", "on_train_start"])
@pytest.mark.parametrize("namespace", NAMESPACES)
def test_lightning_shows_which_checkpoint_a_fit_resumes_from_before_it_is_loaded(
    tmp_path: Path, namespace: str, callback: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Fail where a new Lightning has renamed what `resume_path` reads.

    Mend that function then.
    """
    seen: list[tuple[Any, Any]] = []

    class Look(L.Callback):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            seen.append((self.early, trainer.ckpt_path))

    def look(self: Any, trainer: Any, *_: Any, **__: Any) -> None:
        self.early = resume_path(trainer)

    if callback != "on_train_start":
        setattr(Look, callback, look)
    else:
        Look.early = property(lambda self: resume_path(running))  # type: ignore[attr-defined]
    saving = __import__(f"{namespace}.callbacks", fromlist=["ModelCheckpoint"]).ModelCheckpoint(
        tmp_path, save_last=True
    )
    running = trainer(
        namespace, logger=False, callbacks=[Look(), saving], enable_checkpointing=True, max_epochs=9
    )
    module = module_of(namespace)
    for epochs, path in enumerate([None, "last", "best", tmp_path / "last.ckpt", None], start=1):
        running.fit_loop.max_epochs = epochs
        running.fit(module, loader(2), ckpt_path=path)

    assert [early for early, _ in seen] == [loaded for _, loaded in seen]
    assert [loaded is None for _, loaded in seen] == [True, False, False, False, True]
    assert not [
        record for record in caplog.records if record.name.startswith("mindsummary_lightning")
    ]


def test_a_lightning_that_does_not_show_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = trainer(logger=False)
    running.ckpt_path = "call_before.ckpt"

    def of_another(ckpt_path: str) -> Any:
        return resume_path(running)

    assert of_another("another.ckpt") == "call_before.ckpt"
    assert resume_path(object()) is None
    (said,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "this version of Lightning is unknown" in said.getMessage()


def test_custom_lineage_of_a_collector_wins_over_hyper_parameters_of_a_logger_in_the_same_directory(
    tmp_path: Path,
) -> None:
    logger = MindInsightLogger(tmp_path, name="", version="run")
    collector = SummaryCollector(tmp_path / "run", custom_lineage_data={"width": "wide"})
    trainer(logger=logger, callbacks=[collector], limit_train_batches=2).fit(Saving(3), loader())

    assert SummaryReader(tmp_path / "run").lineage().custom.values["width"] == "wide"


def test_a_working_directory_that_is_gone_costs_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    logger = MindInsightLogger(tmp_path / "runs", version=0)
    running = trainer(
        logger=logger, callbacks=[SummaryCollector()], max_epochs=1, limit_train_batches=2
    )
    (tmp_path / "here").rmdir()

    running.fit(Net(), loader())
    assert steps(logger.log_dir, "loss/auto") == [1, 2]
