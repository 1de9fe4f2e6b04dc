"""What watchers are told of the calls of modules, and that all is as before when they end."""

from __future__ import annotations

import os
import sys
import threading
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.graph.module_calls import ModuleCalls, Watcher
from tests.graph.training import skip_where_result_is_unseen

Told = list[tuple[Any, ...]]


class Listener(Watcher):
    """Writes down what it is told; whether it wants calls is asked of the base class."""

    def __init__(self) -> None:
        self.told: Told = []
        self.hooks = 0
        self.errors: list[Exception] = []

    def enter_module(self, module: nn.Module, is_whole: bool, arguments: Any) -> None:
        args, kwargs = arguments
        self.told.append(("enter", type(module).__name__, is_whole, len(args), [*kwargs]))

    def leave_module(self, is_whole: bool, arguments: Any, output: Any) -> None:
        self.told.append(("leave", is_whole, None if output is None else tuple(output.shape)))

    def add_compiled(self, name: str, owner: Any, arguments: Any, output: Any) -> None:
        self.told.append(("compiled", name, owner, len(arguments[0]), tuple(output.shape)))

    def pause(self) -> None:
        self.hooks = 0

    def resume(self) -> None:
        self.hooks = 1

    def fail(self, error: Exception) -> None:
        self.errors.append(error)


class Doubled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, *, factor: float) -> torch.Tensor:
        return self.layer(x) * factor


_CALLS: Told = [
    ("enter", "Doubled", False, 1, ["factor"]),
    ("enter", "Linear", False, 1, []),
    ("leave", False, (2, 3)),
    ("leave", False, (2, 3)),
]


def _is_clean() -> bool:
    return nn.Module.__call__.__name__ == "_wrapped_call_impl"


def test_each_watcher_is_told_the_calls_of_its_time() -> None:
    outer, inner, net, x = Listener(), Listener(), Doubled(), torch.ones(2, 4)
    limit = sys.getrecursionlimit()
    with ModuleCalls.told_to(outer):
        net(x, factor=2)
        with ModuleCalls.told_to(inner):
            net(x, factor=2)
            assert (outer.hooks, inner.hooks) == (1, 1)
        assert (outer.hooks, inner.hooks) == (1, 0)
        net(x, factor=2)
    net(x, factor=2)

    assert outer.told == _CALLS * 3
    assert inner.told == _CALLS
    assert outer.hooks == 0
    assert (outer.errors, inner.errors) == ([], [])
    assert _is_clean()
    assert sys.getrecursionlimit() == limit


def test_a_watcher_that_wants_no_calls_is_told_none() -> None:
    class Busy(Listener):
        def wants_calls(self) -> bool:
            return False

    busy, other = Busy(), Listener()
    with ModuleCalls.told_to(busy), ModuleCalls.told_to(other):
        Doubled()(torch.ones(2, 4), factor=2)

    assert (busy.told, other.told) == ([], _CALLS)


def test_a_module_that_raises_is_left_and_all_is_as_before() -> None:
    listener = Listener()
    with pytest.raises(TypeError), ModuleCalls.told_to(listener):
        Doubled()(torch.ones(2, 4), factor=None)

    assert listener.told == [*_CALLS[:3], ("leave", False, None)]
    assert _is_clean()
    again = Listener()
    with ModuleCalls.told_to(again):
        Doubled()(torch.ones(2, 4), factor=1)
    assert again.told == _CALLS


def test_a_call_is_told_once_where_a_wrapper_has_kept_the_function_of_an_earlier_time() -> None:
    own, listener = nn.Module.__call__, Listener()
    try:
        with ModuleCalls.told_to(Listener()):
            kept = nn.Module.__call__
            nn.Module.__call__ = lambda module, *args, **kwargs: kept(module, *args, **kwargs)  # type: ignore[method-assign]
        with ModuleCalls.told_to(listener):
            Doubled()(torch.ones(2, 4), factor=2)
    finally:
        nn.Module.__call__ = own  # type: ignore[method-assign]

    assert listener.told == _CALLS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_process_forked_beside_a_thread_that_watches_is_told_its_own_calls() -> None:
    is_in, is_out = threading.Event(), threading.Event()

    def watch() -> None:
        with ModuleCalls.told_to(Listener()):
            is_in.set()
            is_out.wait(60)

    thread = threading.Thread(target=watch)
    thread.start()
    is_in.wait(60)
    child = os.fork()
    if child == 0:
        failed = True
        try:
            was_clean, listener = _is_clean(), Listener()
            with ModuleCalls.told_to(listener):
                Doubled()(torch.ones(2, 4), factor=2)
            failed = not (was_clean and listener.told == _CALLS and _is_clean())
        finally:
            os._exit(failed)
    status = os.waitpid(child, 0)[1]
    is_out.set()
    thread.join()

    assert status == 0
    assert _is_clean()


def test_calls_within_a_scripted_module_are_not_told() -> None:
    listener, scripted = Listener(), torch.jit.script(nn.Sequential(nn.Linear(4, 3)))
    with ModuleCalls.told_to(listener):
        nn.Sequential(scripted, nn.ReLU())(torch.ones(2, 4))

    assert listener.told == [
        ("enter", "Sequential", False, 1, []),
        ("enter", "RecursiveScriptModule", True, 1, []),
        ("leave", True, (2, 3)),
        ("enter", "ReLU", False, 1, []),
        ("leave", False, (2, 3)),
        ("leave", False, (2, 3)),
    ]


def test_compiled_regions_are_told_whole_and_are_compiled_once() -> None:
    compilations: list[int] = []

    def count(graph: Any, example: Any) -> Any:
        compilations.append(1)
        return graph.forward

    @torch.compile(backend=count)
    def halved(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    @torch.compile(backend=count)
    def fails(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("of the user")

    layer: Any = torch.compile(nn.Sequential(nn.Linear(4, 3)), backend=count)
    torch._dynamo.reset()
    listener, x = Listener(), torch.ones(2, 4)

    def told() -> None:
        with ModuleCalls.told_to(listener):
            for _ in range(2):
                layer(halved(x))
            fails(x)

    skip_where_result_is_unseen(halved)
    with pytest.raises(ValueError, match="of the user"):
        told()
    layer(halved(x))

    assert len(compilations) == 2
    assert (
        listener.told
        == [
            ("compiled", "halved", None, 1, (2, 4)),
            ("enter", "OptimizedModule", True, 1, []),
            ("leave", True, (2, 3)),
        ]
        * 2
    )
    assert listener.errors == []
    assert _is_clean()


def test_a_torch_that_enters_compiled_regions_otherwise_tells_no_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "torch._dynamo.eval_frame"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    listener = Listener()
    with ModuleCalls.told_to(listener):
        Doubled()(torch.ones(2, 4), factor=2)

    assert listener.told == []
    (error,) = listener.errors
    assert isinstance(error, GraphCaptureError)
    assert "enters compiled regions in an unknown way" in str(error)
    assert _is_clean()
