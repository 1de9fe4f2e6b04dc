"""The runs of a logger whose calls come from Trainers that train nothing.

The functions in which they call have the names and modules of Lightning's.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lightning.pytorch.utilities import rank_zero_only

from mindsummary_lightning import MindInsightLogger, SummaryReader
from tests.trainer.support import files, points

_MODULES = {
    "lightning.pytorch.trainer.trainer": """
def fit(self, logger, do, ckpt_path=None):
    return _call(self, logger, do)

def validate(self, logger, do, ckpt_path=None):
    return _call(self, logger, do)

def _call(trainer, logger, do):
    logger.experiment
    logger.log_hyperparams(trainer.hyper_parameters)
    do()
    trainer.end(trainer, logger)
""",
    "lightning.pytorch.trainer.call": """
def end(trainer, logger):
    if trainer.ends_with is not None:
        logger.finalize(trainer.ends_with)
""",
    "lightning.pytorch.strategies.launchers.multiprocessing": """
def launch(trainer, copy):
    return copy()
""",
    "lightning.pytorch.tuner.tuning": """
def lr_find(do):
    do()
""",
}


def _of_lightning(module: str, name: str) -> Callable[..., Any]:
    variables: dict[str, Any] = {"__name__": module}
    exec(_MODULES[module], variables)
    function: Callable[..., Any] = variables[name]
    return function


class _Trainer:
    def __init__(self, logger: Any, rank: int = 0, version_of_rank_zero: Any = None) -> None:
        self.loggers = [SimpleNamespace(), logger]
        self.is_global_zero = rank == 0
        self.global_step = 0
        self.state = SimpleNamespace(fn="fit")
        self.checkpoint_callbacks: list[Any] = []
        self.hyper_parameters: dict[str, Any] = {}
        self.ends_with: str | None = "success"
        self.end = _of_lightning("lightning.pytorch.trainer.call", "end")
        self.told: list[Any] = []
        self.strategy = SimpleNamespace(broadcast=self._broadcast)
        self._version_of_rank_zero = version_of_rank_zero

    def _broadcast(self, version: Any) -> Any:
        self.told.append(version)
        return version if self.is_global_zero else self._version_of_rank_zero

    def call(
        self, do: Callable[[], Any] = list, name: str = "fit", ckpt_path: str | None = None
    ) -> None:
        outer, self.state.fn = self.state.fn, name
        function = _of_lightning("lightning.pytorch.trainer.trainer", name)
        function(self, self.loggers[1], do, ckpt_path=ckpt_path)
        self.state.fn = outer


def _values(logger: Any, *steps: int, tag: str = "loss") -> Callable[[], None]:
    def log() -> None:
        for step in steps:
            logger.log_metrics({tag: step / 4}, step)

    return log


def _steps(run: str | Path, tag: str = "loss") -> list[int]:
    return [step for step, _ in points(run, tag)]


def _status(run: str | Path) -> Any:
    return _custom(run).get("status")


def _custom(run: str | Path) -> dict[str, Any]:
    return dict(SummaryReader(run).lineage().custom.values)


def _summaries(run: Path) -> int:
    return sum(name.endswith("_MS") for name in os.listdir(run))


def _names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory)) if directory.exists() else []


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What was said since the last call: all of it, with this machine's command to view."""
    caplog.set_level(logging.INFO)

    def messages() -> list[str]:
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    return messages


def test_each_fit_of_a_new_trainer_has_a_version_and_says_where_it_is(
    tmp_path: Path, said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    logger = MindInsightLogger("runs", name="")
    first = _Trainer(logger)
    first.call(_values(logger, 2, 4))
    of_first = said()
    _Trainer(logger).call(lambda: logger.log_metrics({"loss": 0.5}))
    of_second = said()

    assert _names(tmp_path / "runs") == ["version_0", "version_1"]
    assert points("runs/version_0", "loss") == [(2, 0.5), (4, 1.0)]
    assert points("runs/version_1", "loss") == [(0, 0.5)]  # and not after the other's last step
    assert [_status(f"runs/version_{n}") for n in (0, 1)] == ["success", "success"]
    assert [text.split(" to " if "files go" in text else "\n")[0] for text in of_first] == [
        "MindInsight files go",
        "MindInsight files of this run: runs/version_0",
    ]
    assert of_first[0].startswith("MindInsight files go to runs/version_0; while it trains: ")
    assert of_first[0].endswith(" view runs")
    assert of_first[1].endswith(" view runs")
    assert of_second[0] == (
        "runs/version_0 holds an earlier fit. The new fit is recorded in runs/version_1"
    )
    assert [text.partition(";")[0].partition("\n")[0] for text in of_second[1:]] == [
        "MindInsight files go to runs/version_1",
        "MindInsight files of this run: runs/version_1",
    ]
    assert first.told == [0]


def test_a_fit_that_its_trainer_continues_stays_in_the_run_and_says_nothing_again(
    tmp_path: Path, said: Callable[[], list[str]]
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    running = _Trainer(logger)
    running.call(_values(logger, 0, 1))
    running.global_step = 2
    assert len(said()) == 2
    running.call(_values(logger, 2, 3))

    assert said() == []
    assert _names(tmp_path) == ["version_0"]
    assert _steps(tmp_path / "version_0") == [0, 1, 2, 3]
    assert _summaries(tmp_path / "version_0") == 1


def test_a_new_fit_in_a_given_version_replaces_the_earlier_one_with_a_warning(
    tmp_path: Path, said: Callable[[], list[str]]
) -> None:
    for steps in ((0, 1, 2), (0, 1)):
        logger = MindInsightLogger(tmp_path, name="", version=7)
        _Trainer(logger).call(_values(logger, *steps))

    assert _names(tmp_path) == ["version_7"]
    assert _steps(tmp_path / "version_7") == [0, 1]
    assert _summaries(tmp_path / "version_7") == 2
    assert sum("already contains an earlier fit" in text for text in said()) == 1


def test_a_resumed_fit_stays_in_its_run_in_a_file_of_its_own(
    tmp_path: Path, said: Callable[[], list[str]]
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    _Trainer(logger).call(_values(logger, 0, 1, 2, 3))
    said()
    _Trainer(logger).call(_values(logger, 2), ckpt_path="saved.ckpt")

    assert _names(tmp_path) == ["version_0"]
    assert _steps(tmp_path / "version_0") == [0, 1, 2]  # it has gone on after step 1
    assert _summaries(tmp_path / "version_0") == 2
    assert said() == []


@pytest.mark.parametrize("version", [None, 3])
def test_a_fit_that_resumes_in_a_new_run_explains_that_unless_the_run_was_given(
    tmp_path: Path, said: Callable[[], list[str]], version: int | None
) -> None:
    logger = MindInsightLogger(tmp_path, name="", version=version)
    running = _Trainer(logger)
    running.call(_values(logger, 2), ckpt_path="saved.ckpt")
    running.global_step = 3
    running.call(_values(logger, 3))

    explained = [text for text in said() if "this fit resumes from saved.ckpt" in text]
    assert len(explained) == (version is None)


def test_an_evaluation_with_another_logger_joins_the_file_of_the_fit(tmp_path: Path) -> None:
    for name, steps, tag in (("fit", (0, 1), "loss"), ("validate", (5,), "val")):
        logger = MindInsightLogger(tmp_path, name="", version=0)
        _Trainer(logger).call(_values(logger, *steps, tag=tag), name)

    run = tmp_path / "version_0"
    assert (_steps(run), _steps(run, "val"), _summaries(run)) == ([0, 1], [5], 1)


def test_an_evaluation_after_a_fit_joins_its_file_and_leaves_its_end_and_hyper_parameters(
    tmp_path: Path,
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    fitting, evaluating = _Trainer(logger), _Trainer(logger)
    fitting.hyper_parameters, evaluating.hyper_parameters = {"lr": 0.5}, {"lr": 0.25}
    fitting.call(_values(logger, 0, 1))
    evaluating.ends_with = "failed"
    evaluating.call(_values(logger, 5, tag="val"), "validate")

    run = tmp_path / "version_0"
    assert _names(tmp_path) == ["version_0"]
    assert (_steps(run), _steps(run, "val"), _summaries(run)) == ([0, 1], [5], 1)
    assert (_status(run), _custom(run)["lr"]) == ("success", 0.5)


def test_a_call_within_a_fit_is_recorded_beside_it_and_the_fit_goes_on(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    fitting, within = _Trainer(logger), _Trainer(logger)
    fitting.hyper_parameters, within.ends_with = {"lr": 0.5}, "failed"

    def hook() -> None:
        _values(logger, 0, 1)()
        within.call(_values(logger, 9, tag="val"), "validate")
        logger.log_metrics({"loss": 0.75})

    fitting.call(hook)
    run = tmp_path / "version_0"

    assert _names(tmp_path) == ["version_0"]
    assert _steps(run) == [0, 1, 2]  # the step after the fit's last one
    assert _steps(run, "val") == [9]
    assert (_status(run), _custom(run)["lr"], _summaries(run)) == ("success", 0.5, 1)


def test_a_fit_within_a_fit_has_a_run_of_its_own_and_the_outer_goes_on_in_its(
    tmp_path: Path,
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    outer, inner = _Trainer(logger), _Trainer(logger)
    inner.ends_with = "failed"

    def hook() -> None:
        _values(logger, 0, 1)()
        inner.call(_values(logger, 7))
        logger.log_metrics({"loss": 0.75})

    outer.call(hook)

    assert _names(tmp_path) == ["version_0", "version_1"]
    assert [_steps(tmp_path / name) for name in _names(tmp_path)] == [[0, 1, 2], [7]]
    assert [_status(tmp_path / name) for name in _names(tmp_path)] == ["success", "failed"]
    assert logger.version == 0


def test_a_fit_within_a_fit_that_did_not_say_its_end_is_over_with_the_next_call(
    tmp_path: Path,
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    outer, inner, after = (_Trainer(logger) for _ in range(3))
    outer.ends_with = inner.ends_with = None

    def hook() -> None:
        _values(logger, 0)()
        inner.call(_values(logger, 7))

    outer.call(hook)
    after.call(_values(logger, 4))

    assert [_steps(tmp_path / name) for name in _names(tmp_path)] == [[0], [7], [4]]


def test_a_fit_of_a_tuner_is_no_fit(tmp_path: Path, said: Callable[[], list[str]]) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    _Trainer(logger).call(_values(logger, 0, 1))
    said()
    tuning = _of_lightning("lightning.pytorch.tuner.tuning", "lr_find")
    searching = _Trainer(logger)
    searching.hyper_parameters, searching.ends_with = {"lr": 0.25}, "failed"
    tuning(searching.call)

    assert said() == []
    assert _names(tmp_path) == ["version_0"]
    assert (_status(tmp_path / "version_0"), "lr" in _custom(tmp_path / "version_0")) == (
        "success",
        False,
    )


def test_a_call_that_records_nothing_leaves_nothing_and_frees_its_number(
    tmp_path: Path, said: Callable[[], list[str]]
) -> None:
    logger = MindInsightLogger(tmp_path / "runs", name="")
    running = _Trainer(logger)
    running.hyper_parameters = {"lr": 0.5}
    running.call()

    assert (files(tmp_path), _names(tmp_path), said()) == ([], [], [])
    again = _Trainer(logger)
    again.hyper_parameters = {"lr": 0.25}
    again.call(_values(logger, 0))
    assert _names(tmp_path / "runs") == ["version_0"]
    assert _custom(tmp_path / "runs" / "version_0")["lr"] == 0.25


@pytest.mark.parametrize("is_fit", [True, False])
def test_a_further_rank_takes_the_version_of_rank_zero_and_makes_nothing(
    tmp_path: Path, said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, is_fit: bool
) -> None:
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    logger = MindInsightLogger(tmp_path / "runs", name="")
    running = _Trainer(logger, rank=1, version_of_rank_zero=7)
    running.hyper_parameters = {"lr": 0.5}
    running.call(_values(logger, 0, 1), "fit" if is_fit else "validate")

    assert logger.version == 7
    assert logger.log_dir == str(tmp_path / "runs" / "version_7")
    assert len(running.told) == 1
    assert (_names(tmp_path), said()) == ([], [])


def test_a_run_that_was_begun_and_not_ended_is_started(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    running = _Trainer(logger)
    running.ends_with = None
    running.hyper_parameters = {"lr": 0.5}
    running.call(_values(logger, 0))

    assert (_status(tmp_path / "version_0"), _custom(tmp_path / "version_0")["lr"]) == (
        "started",
        0.5,
    )
    evaluating = _Trainer(MindInsightLogger(tmp_path, name=""))
    evaluating.ends_with = None
    evaluating.call(_values(evaluating.loggers[1], 0), "validate")
    assert _steps(tmp_path / "version_1") == [0]
    assert SummaryReader(tmp_path / "version_1").lineage().custom is None


def test_the_copy_that_a_trainer_launches_records_into_the_run_of_its_fit(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    _Trainer(logger).call(_values(logger, 0, 1))
    launch = _of_lightning("lightning.pytorch.strategies.launchers.multiprocessing", "launch")
    running = _Trainer(logger)
    copies: list[Any] = []

    def fit(self: Any, ckpt_path: str | None = None) -> None:
        copies.append(pickle.loads(launch(self, lambda: pickle.dumps(logger))))

    fit(running)
    (copy,) = copies
    assert copy.version == logger.version == 1
    in_process = _Trainer(copy)
    in_process.call(_values(copy, 3))
    _Trainer(copy).call(_values(copy, 5))

    assert _names(tmp_path) == ["version_0", "version_1", "version_2"]
    assert [_steps(tmp_path / name) for name in _names(tmp_path)] == [[0, 1], [3], [5]]
    assert _status(tmp_path / "version_1") == "success"


def test_a_copy_that_no_trainer_launches_keeps_its_version_and_has_no_call(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    running = _Trainer(logger)
    running.ends_with = None
    running.call(_values(logger, 0, 1))
    copy = pickle.loads(pickle.dumps(logger))
    copy.log_metrics({"loss": 1.0})

    assert copy.version == 0
    assert _steps(tmp_path / "version_0") == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_process_that_a_trainer_forks_finds_the_run_already_chosen(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    _Trainer(logger).call(_values(logger, 0, 1))
    launch = _of_lightning("lightning.pytorch.strategies.launchers.multiprocessing", "launch")

    def forked() -> int:
        child = os.fork()
        if child == 0:
            os._exit(int(logger.version))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def fit(self: Any, ckpt_path: str | None = None) -> int:
        return int(launch(self, forked))

    assert fit(_Trainer(logger)) == 1
    assert logger.version == 1


def test_hyper_parameters_before_any_trainer_are_recorded_and_later_ones_wait_for_the_next_fit(
    tmp_path: Path,
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    logger.log_hyperparams({"lr": 0.5})
    logger.log_metrics({"loss": 1.0})
    assert _custom(tmp_path / "version_0")["lr"] == 0.5
    running = _Trainer(logger)
    running.call(_values(logger, 1))
    logger.log_hyperparams({"size": 3})
    assert "size" not in _custom(tmp_path / "version_0")
    _Trainer(logger).call(_values(logger, 0))

    assert _names(tmp_path) == ["version_0", "version_1"]
    assert "size" not in _custom(tmp_path / "version_0")
    assert _custom(tmp_path / "version_1")["size"] == 3


def test_hyper_parameters_before_a_fit_that_records_nothing_are_those_of_the_next_alone(
    tmp_path: Path,
) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    _Trainer(logger).call(_values(logger, 0))
    logger.log_hyperparams({"size": 3})
    _Trainer(logger).call()
    _Trainer(logger).call(_values(logger, 0))
    _Trainer(logger).call(_values(logger, 0))

    assert ["size" in _custom(tmp_path / name) for name in _names(tmp_path)] == [False, True, False]


def test_hyper_parameters_that_come_during_a_fit_are_recorded_at_once(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    found: list[Any] = []

    def hook() -> None:
        _values(logger, 0)()
        logger.log_hyperparams({"size": 3})
        found.append(_custom(tmp_path / "version_0").get("size"))

    _Trainer(logger).call(hook)
    assert found == [3]


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="open files are listed in /proc on Linux"
)
def test_the_files_of_a_fit_that_did_not_say_its_end_are_closed_by_the_next(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    unended = _Trainer(logger)
    unended.ends_with = None
    unended.call(_values(logger, 0))
    again = _Trainer(logger)
    again.ends_with = None
    again.call(_values(logger, 1))

    held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    run = os.path.realpath(tmp_path)
    assert {path.split(os.sep)[-2] for path in held if path.startswith(run)} == {"version_1"}


def test_a_run_whose_directory_was_removed_begins_anew_there(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    _Trainer(logger).call(_values(logger, 0, 1))
    shutil.rmtree(tmp_path / "version_0")
    _Trainer(logger).call(_values(logger, 4))

    assert _names(tmp_path) == ["version_0"]
    assert _steps(tmp_path / "version_0") == [4]


class _Saving:
    best_model_path, last_model_path, dirpath = "", "", "here"


def test_a_callback_that_has_saved_in_an_earlier_fit_is_named_before_a_new_fit_alone(
    tmp_path: Path, said: Callable[[], list[str]]
) -> None:
    logger, saving = MindInsightLogger(tmp_path, name=""), _Saving()
    saving.best_model_path = str(tmp_path / "earlier.ckpt")
    counts = []
    for name, path in (("validate", None), ("fit", "saved.ckpt"), ("fit", None)):
        running = _Trainer(logger)
        running.checkpoint_callbacks = [saving]
        running.call(_values(logger, 9), name, path)
        counts.append(sum("this _Saving has already saved" in text for text in said()))

    assert counts == [0, 0, 1]
