"""What users see of the frames between their calls in an observed step: warnings, tracebacks, the stack, its limit."""

from __future__ import annotations

import gc
import importlib.util
import inspect
import sys
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from mindsummary_lightning.graph.step_observer import StepObserver

# A module of a user's; each method of Cases warns in another way.
SOURCE = """
import inspect
import warnings

import torch
import torch.nn.functional as F
from torch import nn


class Says(nn.Module):
    def __init__(self, level):
        super().__init__()
        self.level = level

    def forward(self, x):
        warnings.warn("said in forward", UserWarning, stacklevel=self.level)
        return x.exp()


class Stacked(nn.Module):
    def forward(self, x):
        self.seen = [(frame.filename, frame.lineno, frame.function) for frame in inspect.stack()[:8]]
        return x.exp()


class Deep(nn.Module):
    def forward(self, x, levels):
        return self(x, levels - 1) if levels else x.exp()


class Cases:
    def cpp(self, x):
        return x.to(torch.complex64).float()

    def method_of_a_tensor(self, x):
        return x[None].T[..., 0]

    def broadcast(self, x):
        return F.mse_loss(x, x[:1])

    def functional(self, x):
        return F.softmax(x)

    def module(self, x):
        return nn.Softmax()(x)

    def nested(self, x):
        return nn.Sequential(nn.Identity(), nn.Sequential(nn.Softmax(), Says(5)))(x)

    def forward_1(self, x):
        return Says(1)(x)

    def forward_2(self, x):
        return Says(2)(x)

    def forward_4(self, x):
        return Says(4)(x)

    def forward_5(self, x):
        return Says(5)(x)

    def forward_7(self, x):
        return Says(7)(x)

    def own(self, x):
        warnings.warn("said in the step", DeprecationWarning, stacklevel=2)
        return x.exp()

    def own_3(self, x):
        warnings.warn("said in the step", DeprecationWarning, stacklevel=3)
        return x.exp()

    def fails(self, x):
        return F.softmax(x, dim=7)

    def fails_in_a_module(self, x):
        return nn.Sequential(nn.Identity(), nn.Linear(99, 1))(x)


class Net(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case
        self.layer = nn.Linear(4, 4)

    def training_step(self, batch, batch_idx):
        return self.case(self.layer(batch)).sum()
"""
WARNING_CASES = [
    "cpp", "method_of_a_tensor", "broadcast", "functional", "module", "nested", "forward_1", "forward_2", "forward_4",
    "forward_5", "forward_7", "own", "own_3",
]  # fmt: skip


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    path = tmp_path_factory.mktemp("user") / "users_module.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("users_module", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["users_module"] = module  # warnings find a module's source by its name
    spec.loader.exec_module(module)
    torch.set_warn_always(True)  # else C++ says most things once per process
    yield module
    torch.set_warn_always(False)
    del sys.modules["users_module"]


def step(net: Any, is_observed: bool) -> None:
    """One training step, called from one and the same line whether it is observed or not."""
    observer = StepObserver(net)
    if is_observed:
        observer.arm()
    net.training_step(torch.ones(2, 4), 0)
    assert (observer.graph is not None) == is_observed


def both(work: Callable[[bool], Any]) -> tuple[Any, Any]:
    return work(False), work(True)


@pytest.mark.parametrize("case", WARNING_CASES)
def test_a_warning_has_the_category_text_file_and_line_that_it_has_without_us(users: Any, case: str) -> None:
    def said(is_observed: bool) -> list[tuple[object, ...]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            step(users.Net(getattr(users.Cases(), case)), is_observed)
        return [(each.category, str(each.message), each.filename, each.lineno) for each in caught]

    plain, observed = both(said)

    assert plain
    assert observed == plain


@pytest.mark.parametrize("case", ["cpp", "broadcast", "functional", "forward_1", "forward_4"])
def test_a_filter_for_the_users_module_holds(users: Any, case: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module="users_module")
        step(users.Net(getattr(users.Cases(), case)), True)


def test_a_warning_that_is_said_once_per_line_is_said_once(users: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for is_observed in (True, False):
            step(users.Net(users.Cases().functional), is_observed)

    assert len(caught) == 1


@pytest.mark.parametrize("case", ["fails", "fails_in_a_module"])
def test_a_traceback_has_the_users_frames_once_and_in_their_order(users: Any, case: str) -> None:
    def frames(is_observed: bool) -> list[tuple[object, ...]]:
        with pytest.raises((IndexError, RuntimeError)) as caught:
            step(users.Net(getattr(users.Cases(), case)), is_observed)
        lines = traceback.extract_tb(caught.value.__traceback__)
        return [(line.filename, line.lineno, line.name) for line in lines if "users_module" in line.filename]

    plain, observed = both(frames)

    assert plain
    assert observed == plain


@pytest.mark.slow
def test_the_nearest_frames_on_the_stack_are_those_without_us(users: Any) -> None:
    def stack(is_observed: bool) -> Any:
        net = users.Net(users.Stacked())
        step(net, is_observed)
        return net.case.seen

    plain, observed = both(stack)

    assert len(plain) == 8
    assert observed == plain


def test_what_is_deep_enough_for_the_recursion_limit_is_so_in_an_observed_step(users: Any) -> None:
    limit = sys.getrecursionlimit()
    levels = (limit - len(inspect.stack()) - 50) // 4  # CPython 3.11 counts four for a module
    for is_observed in (False, True):
        step(users.Net(lambda x: users.Deep()(x, levels)), is_observed)

    assert sys.getrecursionlimit() == limit


def test_a_limit_that_the_user_sets_in_the_step_stays(users: Any) -> None:
    limit = sys.getrecursionlimit()

    def sets(x: torch.Tensor) -> torch.Tensor:
        sys.setrecursionlimit(5000)
        return x.exp()

    try:
        step(users.Net(sets), True)
        assert sys.getrecursionlimit() == 5000
    finally:
        sys.setrecursionlimit(limit)


def test_a_frame_of_the_users_holds_no_tensor_longer(users: Any) -> None:
    gone: list[Any] = []

    class Temporary(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = x.detach() * 2
            gone.append(weakref.ref(hidden))
            del hidden
            gone.append(gone[0]())
            return x.exp()

    gc.disable()
    try:
        step(users.Net(Temporary()), True)
    finally:
        gc.enable()

    assert gone[1] is None
