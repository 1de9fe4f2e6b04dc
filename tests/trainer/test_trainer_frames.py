"""Which Trainer calls, found in stacks of frames as those of Lightning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from mindsummary_lightning.trainer.trainer_frames import (
    calling_trainer,
    calls_of_trainers,
    is_called_by_trainer,
    is_called_by_tuner,
    is_within_trainer,
    launching_trainer,
    resume_path,
)

_NAMESPACES = ("lightning.pytorch", "pytorch_lightning")


def _in(module: str, call: Callable[[], Any], name: str = "run", **arguments: Any) -> Any:
    """Call something from a function of a module, whose arguments are named."""
    return _function(module, name, *arguments)(call=call, **arguments)


def _function(module: str, name: str, *arguments: str) -> Callable[..., Any]:
    globals_: dict[str, Any] = {"__name__": module}
    exec(f"def {name}(*, {', '.join(['call', *arguments])}):\n    return call()", globals_)
    function: Callable[..., Any] = globals_[name]
    return function


class _Logger:
    def finalize(self) -> tuple[bool, Any]:
        return is_called_by_trainer(self), calling_trainer(self)

    def through_another_method(self) -> tuple[bool, Any]:
        return self.finalize()


@pytest.mark.parametrize("namespace", _NAMESPACES)
def test_the_trainer_of_a_logger_is_found_behind_the_loggers_methods(namespace: str) -> None:
    logger = _Logger()
    trainer = SimpleNamespace(loggers=[object(), logger])
    connector = SimpleNamespace(trainer=trainer)
    stranger = SimpleNamespace(loggers=[_Logger()])
    module = f"{namespace}.trainer.call"
    only_rank_zero = _function("lightning_utilities.core.rank_zero", "wrapped")

    for call in (
        logger.finalize,
        logger.through_another_method,
        partial(only_rank_zero, call=logger.finalize),
    ):
        assert _in(module, call, trainer=trainer) == (True, trainer)
        assert _in(module, call, self=trainer) == (True, trainer)
        assert _in(module, call, self=connector) == (True, trainer)
        assert _in(module, call, trainer=trainer, self=stranger) == (True, trainer)
        assert _in(module, call, trainer=stranger) == (True, None)
        assert _in(module, call, other=trainer) == (True, None)


def test_a_call_of_the_users_or_of_fabrics_is_no_trainers() -> None:
    logger = _Logger()
    trainer = SimpleNamespace(loggers=[logger])

    def of_user() -> Any:
        return _in("user", logger.finalize)

    assert logger.finalize() == (False, None)
    assert _in("lightning.fabric.fabric", logger.finalize, self=trainer) == (False, None)
    assert _in("lightning.pytorch.trainer.call", of_user, trainer=trainer) == (False, None)
    other = SimpleNamespace(finalize=logger.finalize)
    assert _in(
        "lightning.pytorch.trainer.call",
        lambda: _in("user", logger.finalize, self=other),
        trainer=trainer,
    ) == (False, None)


def test_methods_of_trainers_that_run_are_counted() -> None:
    assert (calls_of_trainers(), is_within_trainer()) == (0, False)
    for namespace in _NAMESPACES:
        module = f"{namespace}.trainer.trainer"
        for name in ("fit", "validate", "test", "predict"):
            assert _in(module, calls_of_trainers, name) == 1
        assert _in(module, lambda: _in(module, calls_of_trainers, "test"), "fit") == 2  # noqa: B023
        assert _in(module, calls_of_trainers, "_run") == 0
        assert _in(f"{namespace}.trainer.call", calls_of_trainers, "fit") == 0
        assert _in(module, is_within_trainer)
        assert _in(f"{namespace}.trainer.call", lambda: _in("user", is_within_trainer))
        assert not _in(f"{namespace}.callbacks.callback", is_within_trainer)
    assert _in("user", calls_of_trainers, "fit") == 0


@pytest.mark.parametrize("namespace", _NAMESPACES)
def test_the_innermost_trainer_that_launches_processes_is_found(namespace: str) -> None:
    launcher = f"{namespace}.strategies.launchers.multiprocessing"
    outer, inner = object(), object()

    assert launching_trainer() is None
    assert _in(f"{namespace}.trainer.trainer", launching_trainer, trainer=outer) is None
    assert _in(launcher, lambda: _in("user", launching_trainer), trainer=outer) is outer
    assert (
        _in(launcher, lambda: _in(launcher, launching_trainer, trainer=inner), trainer=outer)
        is inner
    )
    assert _in(launcher, launching_trainer) is None


@pytest.mark.parametrize("namespace", _NAMESPACES)
def test_a_fit_of_a_tuner_is_told_from_another(namespace: str) -> None:
    def of_trainer() -> bool:
        return bool(_in(f"{namespace}.trainer.trainer", is_called_by_tuner, "fit"))

    assert not of_trainer()
    assert _in(f"{namespace}.tuner.tuning", of_trainer, "lr_find")
    assert not _in(f"{namespace}.tuner.lr_finder", of_trainer)


def test_the_checkpoint_of_a_call_is_the_argument_of_the_trainers_innermost_method() -> None:
    trainer, other = SimpleNamespace(ckpt_path="old"), object()

    def path() -> Any:
        return resume_path(trainer)

    def between() -> Any:
        ckpt_path = "a variable"
        return _with_variable(trainer, path), ckpt_path

    assert _in("user", path, self=trainer, ckpt_path="new") == "new"
    assert _in("user", path, self=trainer, ckpt_path=None) is None
    assert (
        _in(
            "user",
            lambda: _in("user", path, self=trainer, ckpt_path="inner"),
            self=trainer,
            ckpt_path="outer",
        )
        == "inner"
    )
    assert (
        _in(
            "user",
            lambda: _in("user", path, self=other, ckpt_path="another's"),
            self=trainer,
            ckpt_path="new",
        )
        == "new"
    )
    assert _in("user", between, self=trainer, ckpt_path="new") == ("new", "a variable")
    assert _Positional().resumed("positional") == "positional"


def _with_variable(self: Any, call: Callable[[], Any]) -> Any:
    ckpt_path = "a variable"
    return call() if ckpt_path else None


class _Positional:
    ckpt_path = "old"

    def resumed(self, ckpt_path: str) -> Any:
        return resume_path(self)
