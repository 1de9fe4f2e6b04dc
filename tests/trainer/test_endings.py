"""However a training ends, what was recorded is whole, and the lineage says how it ended."""

from __future__ import annotations

import inspect
import json
import os
import random
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest
from lightning.pytorch.callbacks import ModelCheckpoint, OnExceptionCheckpoint
from lightning.pytorch.plugins.environments import SLURMEnvironment

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader, TrainLineage
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.reading.run_directory import summary_files
from tests.trainer.support import Net, errors_of, loader, points, steps, trainer
from tests.warm_processes import as_script, start_warm

_SCRIPT = """
import os, signal, sys
from pathlib import Path
from mindsummary_lightning import MindInsightLogger, SummaryCollector
from tests.trainer.support import Net, loader, trainer
from lightning.pytorch import Callback

class Say(Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        trainer.logger.log_metrics({"said": float(trainer.global_step)}, step=trainer.global_step)
        if trainer.global_step == 5:
            trainer.logger.log_hyperparams({"said": 5})
        os.write(1, b"%d\\n" % trainer.global_step)
        if sys.argv[2] == "exit" and trainer.global_step == 5:
            sys.exit(3)
        if sys.argv[2] == "kill" and trainer.global_step == 5:
            os.kill(os.getpid(), signal.SIGKILL)

logger = MindInsightLogger(sys.argv[1], name="", version="run")
collector = SummaryCollector(collect_freq=1, collect_specified_data={"histogram_regular": ".*"})
trainer(logger=logger, callbacks=[collector, Say()], max_epochs=-1).fit(Net(), loader(50))
"""


class _Stop(L.Callback):
    def __init__(self, error: BaseException, at: int = 3) -> None:
        self.error, self.at = error, at

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step == self.at:
            raise self.error


class _SavedLast(ModelCheckpoint):
    """Saves in ``on_train_end``, behind our callbacks, as Lightning's does with ``save_last``."""

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.best_model_path = str(Path(str(self.dirpath)) / "last.ckpt")
        trainer.save_checkpoint(self.best_model_path)


def _check_whole(run: Path, last_said: int) -> None:
    """Check that every record is there whose call returned.

    The file ends on a record boundary.
    """
    recorded = steps(run, "said")
    assert recorded == list(range(1, len(recorded) + 1))
    assert len(recorded) >= last_said
    for path in summary_files(run):
        scanner = RecordScanner(path)
        assert len(list(scanner)) > 0
        assert scanner.offset == Path(path).stat().st_size
    assert SummaryReader(run).lineage().train is not None


def _end(
    directory: Path, how: str, said: int, by: signal.Signals | None = None
) -> tuple[int, int | None]:
    """Run the script, and send it a signal when it has said a step.

    Returns the last step it said, and its exit status.
    """
    script = directory / "script.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    listen, speak = os.pipe()
    process = start_warm(as_script, script, directory, how, stdout=speak)
    os.close(speak)
    with os.fdopen(listen) as heard:
        steps_said = (int(line) for line in heard if line.strip().isdigit())
        last = next(step for step in steps_said if step >= said)
        if by is not None:
            assert process.pid is not None
            os.kill(process.pid, by)
        last = max(steps_said, default=last)
    process.join(60)
    return last, process.exitcode


@pytest.mark.parametrize(
    ("error", "raised", "status"),
    [
        (RuntimeError("mine"), RuntimeError, "failed"),
        (KeyboardInterrupt(), SystemExit, "interrupted"),
        (SystemExit(3), SystemExit, "failed"),
    ],
    ids=["exception", "keyboard interrupt", "sys.exit"],
)
def test_a_training_that_breaks_off_leaves_all_it_recorded(
    tmp_path: Path, error: BaseException, raised: type[BaseException], status: str
) -> None:
    handler = signal.getsignal(signal.SIGINT)
    logger = MindInsightLogger(tmp_path / "logger")
    collector = SummaryCollector(tmp_path / "collector", collect_freq=1)
    lineage = TrainLineage(tmp_path / "lineage")
    try:
        with pytest.raises(raised):
            trainer(logger=logger, callbacks=[collector, lineage, _Stop(error)]).fit(
                Net(), loader()
            )
    finally:
        signal.signal(signal.SIGINT, handler)  # Lightning ignores a second Ctrl-C for good

    assert steps(tmp_path / "collector", "loss/auto") == [1, 2, 3]
    # a step's metrics come after its callbacks
    assert steps(logger.log_dir, "train/loss") == [0, 1]
    for directory in (logger.log_dir, tmp_path / "collector"):
        assert SummaryReader(directory).lineage().custom.values["status"] == status
    for directory in (tmp_path / "collector", tmp_path / "lineage"):
        assert SummaryReader(directory).lineage().train.loss is not None


def test_an_exception_in_validation_keeps_the_lineage_so_far(tmp_path: Path) -> None:
    class Fail(L.Callback):
        def on_validation_batch_start(self, *_: Any) -> None:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        trainer(callbacks=[SummaryCollector(tmp_path), Fail()], logger=False).fit(
            Net(), loader(), loader(2)
        )

    assert SummaryReader(tmp_path).lineage().train.loss == pytest.approx(
        points(tmp_path, "loss/auto")[-1][1]
    )


def test_an_exception_before_training_leaves_no_file_and_is_the_only_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Net):
        def configure_optimizers(self) -> Any:
            raise RuntimeError("mine")

    logger = MindInsightLogger(tmp_path / "logger")
    with pytest.raises(RuntimeError, match="mine"):
        trainer(
            logger=logger, callbacks=[SummaryCollector(tmp_path / "c"), TrainLineage(logger)]
        ).fit(Broken(), loader())

    assert not any(tmp_path.iterdir())
    assert errors_of(caplog, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code", "said_of_it"),
    [
        pytest.param("exit", 3, "failed", marks=pytest.mark.long),
        ("kill", -signal.SIGKILL, "started"),
    ],
)
def test_a_script_that_leaves_or_is_killed_in_a_hook_leaves_every_record(
    tmp_path: Path, how: str, code: int, said_of_it: str | None
) -> None:
    last, status = _end(tmp_path, how, 5)

    assert status == code
    _check_whole(tmp_path / "run", last)
    custom = SummaryReader(tmp_path / "run").lineage().custom.values  # type: ignore[union-attr]
    assert (custom["said"], custom.get("status")) == (5, said_of_it)


@pytest.mark.parametrize("has_collector", [True, False])
def test_an_evaluation_leaves_the_status_of_the_fit_before_it(
    tmp_path: Path, has_collector: bool
) -> None:
    logger = MindInsightLogger(tmp_path, name="", version="run")
    ours = [SummaryCollector()] if has_collector else []
    with pytest.raises(RuntimeError, match="mine"):
        trainer(logger=logger, callbacks=[*ours, _Stop(RuntimeError("mine"), at=2)]).fit(
            Net(), loader()
        )
    trainer(logger=logger, callbacks=ours).test(Net(), loader(1), verbose=False)

    assert SummaryReader(logger.log_dir).lineage().custom.values["status"] == "failed"  # type: ignore[union-attr]
    assert points(logger.log_dir, "test/loss")


@pytest.mark.slow
def test_sigterm_leaves_every_record_and_the_status(tmp_path: Path) -> None:
    last, _ = _end(tmp_path, "wait", 7, signal.SIGTERM)

    _check_whole(tmp_path / "run", last)
    custom = SummaryReader(tmp_path / "run").lineage().custom.values  # type: ignore[union-attr]
    assert custom["status"] == "interrupted"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="Slurm's signal does not exist here")
def test_a_requeue_of_slurm_is_an_interruption_unless_the_job_goes_on_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\nexit 0\n")
    scontrol.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name, value in {
        "JOB_ID": "7",
        "NTASKS": "1",
        "PROCID": "0",
        "LOCALID": "0",
        "NODEID": "0",
    }.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    logger = MindInsightLogger(tmp_path / "runs")
    told: list[str] = []

    class Requeue(L.Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 3:
                os.kill(os.getpid(), signal.SIGUSR1)
            if trainer.global_step == 4:
                told.append(SummaryReader(logger.log_dir).lineage().custom.values["status"])

    fit = trainer(
        logger=logger,
        callbacks=[Requeue()],
        plugins=[SLURMEnvironment()],
        default_root_dir=tmp_path,
    )
    fit.fit(Net(), loader())

    assert told == ["interrupted"]
    assert SummaryReader(logger.log_dir).lineage().custom.values["status"] == "success"


@pytest.mark.slow
def test_sigkill_at_random_moments_leaves_every_record_whose_call_returned(
    tmp_path: Path, times: Callable[[int, int], int]
) -> None:
    places = random.Random(5)
    for trial in range(times(1, 3)):
        directory = tmp_path / str(trial)
        directory.mkdir()
        last, status = _end(directory, "wait", places.randrange(1, 300), signal.SIGKILL)

        assert status == -signal.SIGKILL
        _check_whole(directory / "run", last)


@pytest.mark.parametrize("callback", [SummaryCollector, TrainLineage])
def test_a_checkpoint_saved_when_the_training_is_over_is_in_the_lineage(
    tmp_path: Path, callback: Any
) -> None:
    saving = _SavedLast(tmp_path / "saved", every_n_epochs=100)
    options: dict[str, Any] = {"logger": False, "enable_checkpointing": True}
    trainer(callbacks=[callback(tmp_path / "run"), saving], **options).fit(Net(), loader(2))

    train = SummaryReader(tmp_path / "run").lineage().train
    assert train.model_path == json.dumps({"ckpt": saving.best_model_path})
    assert train.model_size == Path(saving.best_model_path).stat().st_size


@pytest.mark.parametrize("callback", [SummaryCollector, TrainLineage])
@pytest.mark.parametrize("save_weights_only", [True, False])
def test_a_checkpoint_is_in_the_lineage_at_the_next_batch(
    tmp_path: Path, callback: Any, save_weights_only: bool
) -> None:
    seen: list[str | None] = []

    class Look(L.Callback):
        def on_train_batch_start(self, *_: Any) -> None:
            seen.append(
                json.loads(SummaryReader(tmp_path / "run").lineage().train.model_path)["ckpt"]
            )

    saving = ModelCheckpoint(
        tmp_path / "saved", "{step}", every_n_train_steps=2, save_weights_only=save_weights_only
    )
    callbacks = [callback(tmp_path / "run"), Look(), saving]
    trainer(callbacks=callbacks, logger=False, enable_checkpointing=True, max_epochs=1).fit(
        Net(), loader(4)
    )

    assert seen == [None, None, *[str(tmp_path / "saved" / "step=2.ckpt")] * 2]


_SAVES_ON_EXCEPTION = pytest.mark.skipif(
    "save_on_exception" not in inspect.signature(ModelCheckpoint).parameters,
    reason="since Lightning 2.6",
)


def _break_off(
    folder: Path, way: str, saving: L.Callback, error: BaseException | None = None
) -> Any:
    """Train until an error in the third step; the lineage then."""
    run = folder / "run"
    logger = (
        MindInsightLogger(folder, name="", version="run")
        if way.endswith("with a logger")
        else False
    )
    ours = {
        "a collector": lambda: SummaryCollector(run),
        "a collector with a logger": SummaryCollector,
        "a callback": lambda: TrainLineage(run),
        "a callback with a logger": lambda: TrainLineage(logger),  # type: ignore[arg-type]
    }[way]()
    stop = _Stop(error or RuntimeError("mine"))
    with pytest.raises((RuntimeError, SystemExit)):
        trainer(logger=logger, callbacks=[ours, stop, saving], enable_checkpointing=True).fit(
            Net(), loader()
        )
    return SummaryReader(run).lineage()


_WAYS = ["a collector", "a collector with a logger", "a callback", "a callback with a logger"]


@_SAVES_ON_EXCEPTION
@pytest.mark.parametrize("way", _WAYS)
def test_a_checkpoint_saved_on_an_exception_is_in_the_lineage(tmp_path: Path, way: str) -> None:
    lineage = _break_off(
        tmp_path, way, ModelCheckpoint(tmp_path / "saved", "{step}", save_on_exception=True)
    )

    saved = tmp_path / "saved" / "step=3.ckpt"
    assert lineage.train.model_path == json.dumps({"ckpt": str(saved)})
    assert lineage.train.model_size == saved.stat().st_size
    assert lineage.custom.values["exception_checkpoint"] == str(saved)


@_SAVES_ON_EXCEPTION
@pytest.mark.parametrize("way", _WAYS)
def test_the_best_checkpoint_stays_the_models_when_another_is_saved_on_an_exception(
    tmp_path: Path, way: str
) -> None:
    saving = ModelCheckpoint(
        tmp_path / "saved",
        "{step}",
        monitor="train/loss",
        every_n_train_steps=2,
        save_on_exception=True,
    )
    lineage = _break_off(tmp_path, way, saving)

    assert lineage.train.model_path == json.dumps({"ckpt": str(tmp_path / "saved" / "step=2.ckpt")})
    assert lineage.custom.values["exception_checkpoint"] == str(tmp_path / "saved" / "step=3.ckpt")


@_SAVES_ON_EXCEPTION
def test_a_checkpoint_saved_at_an_interrupt_is_in_the_lineage(tmp_path: Path) -> None:
    handler = signal.getsignal(signal.SIGINT)
    saving = ModelCheckpoint(tmp_path / "saved", "{step}", save_on_exception=True)
    try:
        lineage = _break_off(tmp_path, "a collector", saving, KeyboardInterrupt())
    finally:
        signal.signal(signal.SIGINT, handler)

    assert lineage.train.model_path == json.dumps({"ckpt": str(tmp_path / "saved" / "step=3.ckpt")})


@pytest.mark.parametrize("way", _WAYS)
def test_a_checkpoint_of_lightnings_own_callback_for_exceptions_is_in_the_lineage(
    tmp_path: Path, way: str
) -> None:
    lineage = _break_off(tmp_path, way, OnExceptionCheckpoint(tmp_path / "saved"))

    assert lineage.train.model_path == json.dumps(
        {"ckpt": str(tmp_path / "saved" / "on_exception.ckpt")}
    )


@pytest.mark.parametrize("way", _WAYS)
def test_without_a_checkpoint_on_the_exception_the_lineage_names_none(
    tmp_path: Path, way: str
) -> None:
    saving = ModelCheckpoint(tmp_path / "saved", "{step}", every_n_train_steps=2)
    lineage = _break_off(tmp_path, way, saving)

    assert lineage.train.model_path == json.dumps({"ckpt": str(tmp_path / "saved" / "step=2.ckpt")})
    assert "exception_checkpoint" not in lineage.custom.values
    assert "on_exception" not in vars(saving)


def test_an_exception_of_saving_passes_and_leaves_the_callback_as_it_was(tmp_path: Path) -> None:
    class Full(ModelCheckpoint):
        def on_exception(self, *_: Any) -> None:
            raise OSError("the disk is full")

    saving = Full(tmp_path / "saved")
    with pytest.raises(OSError, match="disk is full"):
        trainer(
            callbacks=[SummaryCollector(tmp_path / "run"), _Stop(RuntimeError("mine")), saving],
            logger=False,
            enable_checkpointing=True,
        ).fit(Net(), loader())

    assert "on_exception" not in vars(saving)
    assert SummaryReader(tmp_path / "run").lineage().train.loss is not None  # type: ignore[union-attr]


def test_without_train_lineage_a_checkpoint_saved_on_an_exception_is_not_named(
    tmp_path: Path,
) -> None:
    collector = SummaryCollector(
        tmp_path / "run", collect_specified_data={"collect_train_lineage": False}
    )
    with pytest.raises(RuntimeError, match="mine"):
        trainer(
            callbacks=[
                collector,
                _Stop(RuntimeError("mine")),
                OnExceptionCheckpoint(tmp_path / "saved"),
            ],
            logger=False,
            enable_checkpointing=True,
        ).fit(Net(), loader())

    assert (tmp_path / "saved" / "on_exception.ckpt").is_file()
    lineage = SummaryReader(tmp_path / "run").lineage()
    assert (lineage.train.model_path, lineage.train.epoch) == (None, None)
    assert lineage.custom is None or "exception_checkpoint" not in lineage.custom.values


class _Failing(ModelCheckpoint):
    def on_exception(self, *_: Any) -> None:
        raise OSError("the disk is full")


class _Silent(ModelCheckpoint):
    def on_exception(self, *_: Any) -> None:
        """Save nothing, as a callback does that has no step to save."""


@pytest.mark.parametrize(
    ("kind", "counts"), [(OnExceptionCheckpoint, 0), (_Silent, 1), (_Failing, None)]
)
def test_the_first_checkpoint_saved_on_an_exception_counts_and_every_callback_is_as_it_was(
    tmp_path: Path, kind: Any, counts: int | None
) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    first = kind(folders[0])
    second = OnExceptionCheckpoint(folders[1])
    with pytest.raises((RuntimeError, OSError), match=r"mine|disk is full"):
        trainer(
            callbacks=[
                SummaryCollector(tmp_path / "run"),
                _Stop(RuntimeError("mine")),
                first,
                second,
            ],
            logger=False,
            enable_checkpointing=True,
        ).fit(Net(), loader())

    assert ["on_exception" in vars(callback) for callback in (first, second)] == [False, False]
    train = SummaryReader(tmp_path / "run").lineage().train
    saved = None if counts is None else str(folders[counts] / "on_exception.ckpt")
    assert json.loads(train.model_path)["ckpt"] == saved  # type: ignore[union-attr]


def test_a_test_that_fails_leaves_all_that_the_fit_before_it_recorded(tmp_path: Path) -> None:
    class Broken(Net):
        def on_test_batch_end(self, *_: Any) -> None:
            raise RuntimeError("mine")

    running, net = trainer(logger=False, callbacks=[SummaryCollector(tmp_path, 1)]), Broken()
    running.fit(net, loader(3))
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(RuntimeError, match="mine"):
        running.test(net, loader(1), verbose=False)

    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_a_second_fit_that_fails_before_its_first_step_records_nothing_of_the_first(
    tmp_path: Path,
) -> None:
    class Broken(Net):
        def on_fit_start(self) -> None:
            raise RuntimeError("mine")

    logger, collector = MindInsightLogger(tmp_path, name=""), SummaryCollector(collect_freq=1)
    trainer(logger=logger, callbacks=[collector]).fit(Net(), loader(3))
    with pytest.raises(RuntimeError, match="mine"):
        trainer(logger=logger, callbacks=[collector]).fit(Broken(), loader(3))

    assert os.listdir(tmp_path) == ["version_0"]
    assert steps(tmp_path / "version_0", "loss/auto") == [1, 2, 3]


@pytest.mark.parametrize("owner", ["logger", "collector", "pair"])
def test_a_run_says_where_it_goes_when_it_begins_and_where_it_is_when_it_ends(
    tmp_path: Path, owner: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    logger = MindInsightLogger(tmp_path, name="") if owner != "collector" else False
    callbacks = (
        [] if owner == "logger" else [SummaryCollector(None if logger else tmp_path / "version_0")]
    )
    for run in (tmp_path / "version_0", tmp_path / "version_1")[: 2 if logger else 1]:
        caplog.clear()
        trainer(logger=logger, callbacks=callbacks, max_epochs=2).fit(Net(), loader(2))
        # says nothing of it
        trainer(logger=logger, callbacks=callbacks).test(Net(), loader(1), verbose=False)

        begin, end = (
            record.getMessage()
            for record in caplog.records
            if "MindInsight files" in record.getMessage()
        )
        view = f"view {shlex.quote(str(tmp_path if logger else run))}"
        assert str(run) in begin
        assert begin.endswith(view)
        assert str(run) in end
        assert end.endswith(view)


@pytest.mark.parametrize("installed", ["here", "not here", "elsewhere first"])
def test_the_command_to_look_exists_in_this_environment(
    tmp_path: Path,
    installed: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    own, other = tmp_path / "my venv" / "bin", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir(parents=True)
        script = folder / "mindsummary"
        if folder == other or installed != "not here":
            script.touch()
            script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(own / "python"))
    monkeypatch.setenv("PATH", str(own if installed == "here" else other))
    trainer(logger=MindInsightLogger("my runs"), limit_train_batches=1).fit(Net(), loader(1))

    command = {
        "here": "mindsummary",
        "not here": "'my venv/bin/python' -m mindsummary_lightning",
        "elsewhere first": "'my venv/bin/python' -m mindsummary_lightning",
    }[installed]
    messages = [
        record.getMessage()
        for record in caplog.records
        if "MindInsight files" in record.getMessage()
    ]
    assert [
        message.endswith(f": {command} view 'my runs/lightning_logs'") for message in messages
    ] == [True, True]
