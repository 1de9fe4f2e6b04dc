"""Nothing that a hook of ours does reaches the training, unless it is asked to."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pytest

from mindsummary_lightning import (
    EvalLineage,
    MindInsightLogger,
    SummaryCollector,
    SummaryLandscape,
    SummaryReader,
    SummaryRecord,
    TrainLineage,
)
from mindsummary_lightning.trainer.hook_guard import HookGuard, guarded_hooks
from tests.trainer.support import Net, loader, trainer

_CALLBACKS: dict[str, Callable[[Path], Any]] = {
    "SummaryCollector": lambda run: SummaryCollector(run, collect_freq=1, collect_gradients=True),
    "TrainLineage": TrainLineage,
    "EvalLineage": EvalLineage,
}


class _Hostile:
    """Raises whatever is done with it, as a Trainer."""

    sanity_checking = fast_dev_run = False

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


@pytest.mark.parametrize("name", _CALLBACKS)
def test_no_hook_raises_whatever_the_trainer_the_module_and_the_batch_do(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    callback = _CALLBACKS[name](tmp_path / "run")
    trainer(logger=False, callbacks=[callback]).fit(Net(), loader(2), loader(1))
    hooks = [hook for hook in dir(L.Callback) if hook.startswith("on_") or hook == "teardown"]
    for hook in hooks:
        called = getattr(callback, hook)
        called(*[_Hostile() for _ in inspect.signature(called).parameters])

    assert name != "SummaryCollector" or "SummaryCollector could not record" in caplog.text


def test_a_hook_that_fails_costs_its_step_only_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    collector = SummaryCollector(tmp_path, collect_freq=1)
    monkeypatch.setattr(
        "mindsummary_lightning.collection.step_collector.StepCollector.end_batch", lambda *_: [][0]
    )
    running = trainer(logger=False, callbacks=[collector])
    running.fit(Net(), loader(6))

    assert running.global_step == 6
    messages = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert len(messages) == 2
    assert "on_train_batch_end" in messages[0]
    assert "IndexError" in messages[0]
    assert "failed to record 6 times" in messages[1]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes(kind: type[BaseException]) -> None:
    @guarded_hooks
    class Interrupted:
        _guard = HookGuard(logging.getLogger(__name__), "Interrupted")

        def on_train_end(self) -> None:
            raise kind

    with pytest.raises(kind):
        Interrupted().on_train_end()


def test_every_hook_and_teardown_are_guarded_and_no_other_method() -> None:
    class Broken:
        def __init__(self) -> None:
            self._guard = HookGuard(logging.getLogger(__name__), "Broken")

        def fail(self) -> None:
            raise LookupError("mine")

        on_train_start = on_exception = setup = teardown = state_dict = fail

    callback: Any = guarded_hooks(Broken)()
    for guarded in ("on_train_start", "on_exception", "teardown"):
        getattr(callback, guarded)()
    for free in ("setup", "state_dict"):
        with pytest.raises(LookupError, match="mine"):
            getattr(callback, free)()


def test_the_total_is_of_the_errors_since_the_last_total_and_of_one_error_there_is_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard, totals = HookGuard(logging.getLogger(__name__), "Ours"), []
    for errors in (1, 3, 0, 2, 1):
        for _ in range(errors):
            with guard("a value"):
                raise LookupError("mine")
        caplog.clear()
        guard.log_total()
        totals.append(caplog.messages)

    total = "Ours failed to record {} times in total"
    assert totals == [[], [total.format(3)], [], [total.format(2)], []]


def test_of_each_kind_of_error_and_of_each_value_the_first_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = HookGuard(logging.getLogger(__name__), "Ours")
    for what, error in (
        *[("a value", LookupError("mine"))] * 2,
        ("a value", ValueError("mine")),
        ("another", LookupError("mine")),
    ):
        with guard(what):
            raise error

    assert [message.partition(". ")[0] for message in caplog.messages] == [
        "Ours could not record a value: LookupError: mine",
        "Ours could not record a value: ValueError: mine",
        "Ours could not record another: LookupError: mine",
    ]


def test_hooks_raise_if_the_logger_is_to_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "mindsummary_lightning.collection.step_collector.StepCollector.end_batch", lambda *_: [][0]
    )
    logger = MindInsightLogger(tmp_path, raise_exception=True)

    with pytest.raises(IndexError):
        trainer(logger=logger, callbacks=[SummaryCollector()]).fit(Net(), loader())


def test_an_error_of_a_users_subclass_is_theirs(tmp_path: Path) -> None:
    class Mine(SummaryCollector):
        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            super().on_train_end(trainer, pl_module)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        trainer(logger=False, callbacks=[Mine(tmp_path)]).fit(Net(), loader())


def test_public_classes_say_what_they_record_into(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, version="a")

    assert repr(logger) == f"MindInsightLogger(log_dir={str(tmp_path / 'lightning_logs' / 'a')!r})"
    assert (
        repr(SummaryCollector(tmp_path, 3))
        == f"SummaryCollector(summary_dir={str(tmp_path)!r}, collect_freq=3)"
    )
    assert repr(TrainLineage(logger)) == f"TrainLineage({logger!r})"
    assert repr(EvalLineage(tmp_path)) == f"EvalLineage({str(tmp_path)!r})"
    for kind in (SummaryRecord, SummaryReader, SummaryLandscape):
        assert repr(kind(tmp_path)) == f"{kind.__name__}({str(tmp_path)!r})"


# lightning 2.4 looks into what is no callback before anything is called
_BY_LIGHTNING = "Expected a parent"


@pytest.mark.parametrize("kind", [SummaryCollector, TrainLineage, EvalLineage])
def test_a_class_in_the_place_of_a_callback_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(
        (TypeError, ValueError),
        match=f"must be an object, got the class {kind.__name__}|{_BY_LIGHTNING}",
    ):
        trainer(logger=False, callbacks=[kind]).fit(Net(), loader(1))
