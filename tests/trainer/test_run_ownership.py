"""Which run a call belongs to: every row of the table, through a logger, a collector and both."""

from __future__ import annotations

import contextlib
import gc
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader
from mindsummary_lightning.trainer.run_ownership import (
    PLACES,
    PLACES_IN_FIXED,
    Holds,
    TrainerCall,
    begin_fit,
    contents,
    kind_of_call,
    newest_fit_has_recorded,
    place_of,
    reports_status,
    speaks_for_run,
)
from tests.trainer.ownership_flows import (
    FLOWS,
    Expected,
    Flow,
    Noted,
    fit_after_failure,
    run_flow,
    run_in_process,
)
from tests.trainer.support import Net, judge_points, loader, points, run_script, trainer
from tests.warm_processes import run_two_ranks, run_warm

# Lightning: a Trainer that launches processes fits once
_NO_SPAWN = ("same_trainer_after_failure",)

_SLOW_LOGGER = pytest.param("L", marks=pytest.mark.slow)
# Lightning 2.4 takes one step more after this checkpoint; slow tests run with newer ones only.
_SLOW_RESUME = pytest.param("resumed_fit", marks=pytest.mark.slow)
_QUICK_IF_BOTH = [_SLOW_LOGGER, pytest.param("C", marks=pytest.mark.slow), "B"]


def _check(run: Path, kind: str, expected: Expected) -> None:
    if kind != "C":
        assert [step for step, _ in points(run, "train/loss")] == expected.train, run
        tags = SummaryReader(run).tags()["scalar"]
        validated = points(run, "val/loss") if "val/loss" in tags else []
        assert len(validated) == expected.validations, run
        if expected.judge:
            assert points(run, "train/loss") == judge_points(expected.judge, "train/loss")
            # launched copies take the step with them: the evaluation after them is at step 0
            of_the_fit = judge_points(expected.judge, "val/loss")[:1]
            assert [point for point in validated if point in of_the_fit] == of_the_fit
    if kind != "L":
        assert [step for step, _ in points(run, "loss/auto")] == expected.losses, run
    custom: Any = SummaryReader(run).lineage().custom.values  # type: ignore[union-attr]
    assert custom.get("status") == expected.status, run
    assert custom.get("width") == expected.width, run
    if kind != "C":
        assert custom.get("fold") == expected.fold
    if expected.has_checkpoint:
        saved = os.listdir(run / "checkpoints")
        assert saved, run
        if kind == "B":
            path = _checkpoint_path(run)
            assert os.path.dirname(path) == str(run / "checkpoints")
            assert os.path.basename(path) in saved
    elif (run / "checkpoints").exists():
        raise AssertionError(f"{run} has checkpoints of another fit")


def _checkpoint_path(run: Path) -> Any:
    training: Any = SummaryReader(run).lineage().train
    return json.loads(training.model_path)["ckpt"]


def _check_all(directory: Path, kind: str, runs: dict[str, Expected]) -> None:
    assert sorted(path.name for path in (directory / "runs").iterdir()) == sorted(runs)
    for name, expected in runs.items():
        _check(directory / "runs" / name, kind, expected)


def _check_processes(directory: Path, kind: str) -> None:
    found = json.loads((directory / "expected.json").read_text(encoding="utf-8"))
    _check_all(directory, kind, {name: Expected(**facts) for name, facts in found.items()})


@pytest.mark.parametrize("kind", _QUICK_IF_BOTH)
@pytest.mark.parametrize(
    "flow", [_SLOW_RESUME if flow == "resumed_fit" else flow for flow in FLOWS]
)
def test_every_run_holds_what_its_fit_recorded(
    tmp_path: Path, flow: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs = run_flow(flow, kind, "one process", tmp_path, None)

    _check_all(tmp_path, kind, runs)
    ours = [record for record in caplog.records if record.name.startswith("mindsummary_lightning")]
    said = [record.getMessage() for record in ours if record.levelname == "WARNING"]
    if kind == "C":  # its directory is fixed
        said = [message for message in said if "already contains an earlier fit" not in message]
    assert said == []


@pytest.mark.slow
@pytest.mark.parametrize("error", ["RuntimeError", "KeyboardInterrupt"])
@pytest.mark.parametrize(
    "hook", ["on_fit_start", "on_train_batch_end", "on_validation_epoch_end", "on_train_epoch_end"]
)
@pytest.mark.parametrize("kind", ["L", "B"])
def test_a_fit_that_stops_in_any_hook_keeps_its_run(
    tmp_path: Path, kind: str, hook: str, error: str
) -> None:
    flow = Flow(tmp_path, kind, "one process")
    fit_after_failure(flow, hook, error)

    _check_all(tmp_path, kind, flow.runs)


@pytest.mark.parametrize("kind", [_SLOW_LOGGER, "B"])
@pytest.mark.parametrize(
    "flow", ["two_fits", "fit_after_failure", "fit_after_failed_test", _SLOW_RESUME]
)
def test_in_a_fixed_version_the_newest_fit_replaces_the_others(
    tmp_path: Path, flow: str, kind: str
) -> None:
    runs = run_flow(flow, kind, "one process", tmp_path, 0)

    _check_all(tmp_path, kind, runs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["L", "C", "B"])
@pytest.mark.parametrize("flow", FLOWS)
def test_on_two_ranks_the_runs_are_those_of_one_process(
    tmp_path: Path, flow: str, kind: str
) -> None:
    done = run_two_ranks(run_in_process, flow, kind, "ddp", str(tmp_path), None)
    assert done.returncode == 0, done.stderr[-3000:]

    _check_processes(tmp_path, kind)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("processes", ["pickled copies", "ddp_fork"])
@pytest.mark.parametrize("kind", ["L", "C", "B"])
@pytest.mark.parametrize("flow", [name for name in FLOWS if name not in _NO_SPAWN])
def test_launched_copies_record_where_the_process_that_launches_them_says(
    tmp_path: Path, flow: str, kind: str, processes: str
) -> None:
    done = run_warm(run_in_process, flow, kind, processes, str(tmp_path), None)
    assert done.returncode == 0, done.stderr[-3000:]

    _check_processes(tmp_path, kind)


@pytest.mark.slow
@pytest.mark.long
def test_processes_that_import_everything_record_where_the_process_that_launches_them_says(
    tmp_path: Path,
) -> None:
    done = run_warm(run_in_process, "evaluation_after_fit", "B", "ddp_spawn", str(tmp_path), None)
    assert done.returncode == 0, done.stderr[-3000:]

    _check_processes(tmp_path, "B")


def test_the_table_has_a_place_for_every_call_and_state() -> None:
    for table in (PLACES, PLACES_IN_FIXED):
        assert set(table) == set(TrainerCall)
        assert {len(row) for row in table.values()} == {len(Holds)}


@pytest.mark.parametrize("is_fixed", [False, True])
def test_only_a_fit_that_is_new_leaves_a_run_that_holds_values(is_fixed: bool) -> None:
    def places(call: TrainerCall) -> list[str]:
        return [place_of(call, holds, is_fixed).name for holds in Holds]

    new = ["INSTEAD", "HERE"] if is_fixed else ["NEXT_VERSION", "NEXT_VERSION"]
    assert places(TrainerCall.NEW_FIT) == ["HERE", "HERE", *new]
    assert places(TrainerCall.EVALUATION) == ["HERE", *["NEWEST_FILE"] * 3]
    assert places(TrainerCall.RESUMED_FIT) == ["HERE", "HERE", "NEW_FILE", "HERE"]
    assert {*places(TrainerCall.TUNING), *places(TrainerCall.CONTINUED_FIT)} == {"HERE"}


def test_a_fit_speaks_for_its_run_and_an_evaluation_for_one_that_this_process_began() -> None:
    spoken = {call: {held for held in Holds if speaks_for_run(call, held)} for call in TrainerCall}

    assert spoken == {
        TrainerCall.EVALUATION: {Holds.NOTHING, Holds.VALUES},
        TrainerCall.TUNING: set(),
        TrainerCall.NEW_FIT: set(Holds),
        TrainerCall.CONTINUED_FIT: set(Holds),
        TrainerCall.RESUMED_FIT: set(Holds),
    }


class _Fitting:
    """As much of a Trainer as its call is known by."""

    def __init__(self) -> None:
        self.global_step, self.state = 1, SimpleNamespace(fn="fit")


def test_a_directory_holds_what_was_recorded_there_since_a_fit_began(tmp_path: Path) -> None:
    run, fitting = str(tmp_path / "run"), _Fitting()
    logger = MindInsightLogger(tmp_path, name="", version="run")
    assert contents(run, has_own_values=True) is Holds.NOTHING
    logger.log_metrics({"a": 1.0}, step=0)
    assert contents(run, has_own_values=True) is Holds.VALUES
    assert contents(run, has_own_values=False) is Holds.OTHERS

    begin_fit(fitting, run)
    assert (contents(run, has_own_values=False), newest_fit_has_recorded(run)) == (
        Holds.OTHERS,
        False,
    )
    assert not reports_status(fitting, TrainerCall.NEW_FIT, run, Holds.OTHERS)
    assert kind_of_call(fitting, run, resumes=False, is_tuning=False) is TrainerCall.NEW_FIT
    logger.log_metrics({"a": 2.0}, step=1)
    assert (contents(run, has_own_values=True), newest_fit_has_recorded(run)) == (Holds.FIT, True)
    assert reports_status(fitting, TrainerCall.NEW_FIT, run, Holds.OTHERS)
    assert not reports_status(_Fitting(), TrainerCall.NEW_FIT, run, Holds.OTHERS)
    assert reports_status(fitting, TrainerCall.EVALUATION, run, Holds.VALUES)
    assert not reports_status(fitting, TrainerCall.EVALUATION, run, Holds.FIT)
    assert kind_of_call(fitting, run, resumes=False, is_tuning=False) is TrainerCall.CONTINUED_FIT
    assert kind_of_call(fitting, run, resumes=True, is_tuning=False) is TrainerCall.RESUMED_FIT
    assert kind_of_call(fitting, run, resumes=True, is_tuning=True) is TrainerCall.TUNING
    fitting.global_step = 0
    assert kind_of_call(fitting, run, resumes=False, is_tuning=False) is TrainerCall.NEW_FIT
    fitting.state.fn = "validate"
    assert kind_of_call(fitting, run, resumes=True, is_tuning=True) is TrainerCall.EVALUATION

    begin_fit(_Fitting(), run)  # which records nothing
    (tmp_path / "run" / "notes.txt").touch()
    assert contents(run, has_own_values=False) is Holds.FIT
    assert not newest_fit_has_recorded(run)


# ---- single faults


def _status(run: Path) -> Any:
    return SummaryReader(run).lineage().custom.values.get("status")  # type: ignore[union-attr]


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    ours = [record for record in caplog.records if record.name.startswith("mindsummary_lightning")]
    return [record.getMessage() for record in ours if record.levelname == "WARNING"]


@pytest.mark.parametrize(
    "kind", [pytest.param("logger", marks=pytest.mark.slow), "pair", "collector"]
)
def test_a_checkpoint_callback_of_an_earlier_fit_is_named_in_one_line_and_its_file_is_not_this_fits(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    logger = MindInsightLogger(tmp_path, name="") if kind != "collector" else False
    saving, said = ModelCheckpoint(tmp_path / "saved", monitor="fixed", save_top_k=1), []
    for number in range(2):
        run = tmp_path / f"version_{number}"
        ours = [] if kind == "logger" else [SummaryCollector(None if logger else run)]
        caplog.clear()
        running = trainer(logger=logger, callbacks=[*ours, saving], enable_checkpointing=True)
        running.fit(_Monitored(), loader(2))
        said.append([message for message in _warnings(caplog) if "ModelCheckpoint" in message])
        if kind != "logger":
            assert (_checkpoint_path(run) is None) == (number == 1)

    assert [len(messages) for messages in said] == [0, 1]
    assert os.path.basename(saving.best_model_path) in said[1][0]


class _Monitored(Net):
    """A module whose monitored value never improves, so that a second fit saves nothing better."""

    def on_train_epoch_end(self) -> None:
        self.log("fixed", 1.0)


@pytest.mark.parametrize("by", ["config", "CSVLogger"])
def test_what_a_user_puts_into_the_directory_that_was_told_lies_with_the_run(
    tmp_path: Path, by: str
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    told, others = logger.log_dir, []
    if by == "config":
        Path(told, "config.yaml").touch()
    else:
        others = [CSVLogger(tmp_path, name="", version=logger.version)]
    MindInsightLogger(tmp_path, name="").log_metrics({"another": 1.0}, step=0)
    trainer(logger=[*others, logger], limit_train_batches=2).fit(Net(), loader())

    assert logger.log_dir == told
    assert [step for step, _ in points(told, "train/loss")] == [0, 1]


@pytest.mark.usefixtures("only_new_garbage")
def test_an_empty_directory_that_was_told_goes_with_its_logger(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path / "runs")
    assert os.path.isdir(logger.log_dir)
    trainer(logger=logger).predict(Net(), [loader(1).dataset[0][0][None]])
    assert os.path.isdir(logger.log_dir)
    del logger
    gc.collect()

    assert os.listdir(tmp_path) == []


def test_a_working_directory_that_changes_parts_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    logger = MindInsightLogger("runs", name="")
    monkeypatch.chdir(tmp_path / "elsewhere")
    running = trainer(
        logger=logger,
        callbacks=[ModelCheckpoint()],
        limit_train_batches=2,
        enable_checkpointing=True,
    )
    running.fit(Net(), loader())

    assert os.path.isabs(logger.log_dir)
    assert len(points(logger.log_dir, "train/loss")) == 2
    assert os.listdir(Path(logger.log_dir, "checkpoints"))
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.slow
@pytest.mark.parametrize("with_collector", [False, True])
def test_hyper_parameters_that_the_trainer_does_not_log_are_not_recorded(
    tmp_path: Path, with_collector: bool
) -> None:
    callbacks = [SummaryCollector()] if with_collector else []
    logger = MindInsightLogger(tmp_path, name="", version="run")
    options: dict[str, Any] = {
        "callbacks": callbacks,
        "limit_train_batches": 2,
        "enable_autolog_hparams": False,
    }
    trainer(logger=logger, **options).fit(Noted(3), loader())

    assert "width" not in SummaryReader(logger.log_dir).lineage().custom.values  # type: ignore[union-attr]


def test_a_collector_of_the_loggers_directory_is_that_loggers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    logger = MindInsightLogger(tmp_path, name="")
    for number in range(2):
        collector = SummaryCollector(logger.log_dir, collect_freq=1)
        trainer(logger=logger, callbacks=[collector], limit_train_batches=2).fit(Net(), loader())
        run = tmp_path / f"version_{number}"
        assert [step for step, _ in points(run, "train/loss")] == [0, 1]
        assert [step for step, _ in points(run, "loss/auto")] == [1, 2]

    said = [
        record.getMessage()
        for record in caplog.records
        if "MindInsight files" in record.getMessage()
    ]
    assert len(said) == 4
    assert len({message.rpartition(" view ")[2] for message in said}) == 1


@pytest.mark.parametrize("with_collector", [False, True])
def test_a_fit_that_trains_nothing_announces_no_directory(
    tmp_path: Path, with_collector: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    callbacks = [SummaryCollector()] if with_collector else []
    trainer(logger=MindInsightLogger(tmp_path), callbacks=callbacks, limit_train_batches=0).fit(
        Net(), loader()
    )

    assert "MindInsight files" not in caplog.text
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["logger", "pair"])
def test_a_resume_into_a_run_of_its_own_is_explained_once(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    for epochs, path in ((1, None), (2, tmp_path / "mine.ckpt")):
        callbacks = [SummaryCollector()] if kind == "pair" else []
        logger = MindInsightLogger(tmp_path / "runs", name="")
        running = trainer(
            logger=logger, callbacks=callbacks, limit_train_batches=2, max_epochs=epochs
        )
        running.fit(Net(), loader(), ckpt_path=path)
        running.save_checkpoint(tmp_path / "mine.ckpt")

    (said,) = [message for message in _warnings(caplog) if "two separate curves" in message]
    assert "version" in said


_FIT_THEN_TEST = """
import sys
from mindsummary_lightning import MindInsightLogger, SummaryCollector
from tests.trainer.ownership_flows import Noted
from tests.trainer.support import loader, trainer

directory, call, stops_in, with_collector = sys.argv[1:]
logger = MindInsightLogger(directory, name="", version="run")
callbacks = [SummaryCollector(collect_freq=1)] if with_collector == "True" else []
running = trainer(logger=logger, callbacks=callbacks, limit_train_batches=3)
loaders = [loader(), loader(1)] if call == "fit" else [loader(1)]
try:
    getattr(running, call)(Noted(0, stops_in), *loaders)
except RuntimeError:
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("with_collector", [False, True])
@pytest.mark.parametrize(
    ("fit_stops_in", "test_stops_in"), [("on_train_epoch_end", ""), ("", "on_test_batch_end")]
)
def test_an_evaluation_in_another_process_leaves_curve_and_status_of_the_fit(
    tmp_path: Path, fit_stops_in: str, test_stops_in: str, with_collector: bool
) -> None:
    for call, stops_in in (("fit", fit_stops_in), ("test", test_stops_in), ("validate", "")):
        done = run_script(_FIT_THEN_TEST, tmp_path, call, stops_in, with_collector)
        assert done.returncode == 0, done.stderr[-2000:]

    run = tmp_path / "run"
    assert _status(run) == ("failed" if fit_stops_in else "success")
    assert [step for step, _ in points(run, "train/loss")] == [0, 1, 2]
    assert [step for step, _ in points(run, "val/loss")] == [0, 2]


@pytest.mark.usefixtures("only_new_garbage")
@pytest.mark.parametrize("with_trainer", [False, True])
def test_hyper_parameters_that_no_fit_follows_are_the_last_runs(
    tmp_path: Path, with_trainer: bool
) -> None:
    logger = MindInsightLogger(tmp_path, name="", version="run")
    if with_trainer:
        trainer(logger=logger, limit_train_batches=2).fit(Net(), loader())
    else:
        logger.log_metrics({"a": 1.0}, step=0)
    logger.log_hyperparams({"note": "last"})
    del logger
    gc.collect()

    assert SummaryReader(tmp_path / "run").lineage().custom.values["note"] == "last"  # type: ignore[union-attr]


def test_hyper_parameters_before_a_fit_that_fails_early_are_those_of_the_next(
    tmp_path: Path,
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    logger.log_hyperparams({"note": "mine"})
    with pytest.raises(RuntimeError, match="mine"):
        trainer(logger=logger).fit(Noted(1, "on_fit_start"), loader())
    trainer(logger=logger, limit_train_batches=2).fit(Net(), loader())

    values = SummaryReader(tmp_path / "version_0").lineage().custom.values  # type: ignore[union-attr]
    assert values.get("note") == "mine"
    assert "width" not in values


def test_hyper_parameters_before_a_resume_that_fails_early_are_those_of_its_retry(
    tmp_path: Path,
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    running = trainer(logger=logger, limit_train_batches=2)
    running.fit(Net(), loader())
    running.save_checkpoint(tmp_path / "mine.ckpt")
    logger.log_hyperparams({"note": "mine"})
    with pytest.raises(FileNotFoundError):
        trainer(logger=logger).fit(Net(), loader(), ckpt_path=tmp_path / "nowhere.ckpt")
    again = trainer(logger=logger, limit_train_batches=2, max_epochs=2)
    again.fit(Net(), loader(), ckpt_path=tmp_path / "mine.ckpt")

    assert SummaryReader(tmp_path / "version_0").lineage().custom.values.get("note") == "mine"  # type: ignore[union-attr]


# ---- a call that a hook of another makes


class _Nested(Callback):
    """Makes a call in the third batch of a fit, and may stop the fit in the fifth."""

    def __init__(self, call: Callable[[Any, Any], object], stops: bool) -> None:
        self.call, self.stops = call, stops

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if batch_idx == 2:
            self.call(trainer, pl_module)
        if batch_idx == 4 and self.stops:
            raise RuntimeError("mine")


def _validates(outer: Any, _: Any) -> None:
    trainer(logger=outer.loggers).validate(Net(), loader(2), verbose=False)


def _fits(outer: Any, _: Any) -> None:
    trainer(logger=outer.loggers, limit_train_batches=2).fit(Net(), loader(2))


def _validates_itself(outer: Any, module: Any) -> None:
    # Lightning raises after it: its state is that of a validation
    outer.validate(module, loader(2), verbose=False)


@pytest.mark.parametrize("kind", [_SLOW_LOGGER, "B"])
@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("call", [_validates, _fits])
def test_a_call_within_a_fit_takes_neither_values_nor_status_of_it(
    tmp_path: Path, call: Callable[[Any, Any], object], stops: bool, kind: str
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    ours = [SummaryCollector(collect_freq=1)] if kind == "B" else []
    saving = ModelCheckpoint(every_n_train_steps=4)
    running = trainer(
        logger=logger, callbacks=[*ours, _Nested(call, stops), saving], enable_checkpointing=True
    )
    with pytest.raises(RuntimeError, match="mine") if stops else contextlib.nullcontext():
        running.fit(Noted(3), loader())

    run = tmp_path / "version_0"
    assert [step for step, _ in points(run, "train/loss")] == [*range(4 if stops else 6)]
    assert _status(run) == ("failed" if stops else "success")
    assert SummaryReader(run).lineage().custom.values["width"] == 3  # type: ignore[union-attr]
    assert os.listdir(run / "checkpoints") == ["epoch=0-step=4.ckpt"]
    assert logger.log_dir == str(run)
    if call is _fits:
        assert [step for step, _ in points(tmp_path / "version_1", "train/loss")] == [0, 1]
        assert _status(tmp_path / "version_1") == "success"


def test_a_fit_whose_hook_validates_with_its_own_trainer_has_failed(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    running = trainer(logger=logger, callbacks=[_Nested(_validates_itself, stops=False)])
    with pytest.raises(AssertionError):
        running.fit(Net(), loader(), loader(1))

    assert _status(tmp_path / "version_0") == "failed"
    assert [step for step, _ in points(tmp_path / "version_0", "train/loss")] == [0, 1]


@pytest.mark.parametrize("verb", ["predict", "validate"])
def test_a_call_before_the_first_value_of_a_fit_keeps_its_hyper_parameters(
    tmp_path: Path, verb: str
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    logger.log_hyperparams({"note": "mine"})

    class Early(Callback):
        def on_fit_start(self, outer: Any, pl_module: Any) -> None:
            getattr(trainer(logger=logger), verb)(_Predicting(), loader(1))

    trainer(logger=logger, callbacks=[Early()], limit_train_batches=2).fit(Noted(3), loader())

    assert os.listdir(tmp_path) == ["version_0"]
    values = SummaryReader(tmp_path / "version_0").lineage().custom.values  # type: ignore[union-attr]
    assert (values["width"], values["note"], values["status"]) == (3, "mine", "success")


class _Predicting(Net):
    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        return self(batch[0])
