"""A method is replaced for a while, and is the user's own again."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

from mindsummary_lightning.graph.replaced_method import ReplacedMethod


class Model:
    def step(self, batch: int, *, factor: int = 1) -> int:
        """Compute."""
        return batch * factor


def _replaced(model: Any) -> tuple[ReplacedMethod, list[Any]]:
    calls: list[Any] = []

    def around(original: Callable[..., int], args: Any, kwargs: dict[str, Any]) -> int:
        calls.append((args, kwargs))
        return original(*args, **kwargs) + 100

    return ReplacedMethod(model, "step", around), calls


def test_calls_go_through_the_function_around_until_it_is_disarmed() -> None:
    replaced, calls = _replaced(model := Model())
    assert model.step(2, factor=3) == 6
    for _ in range(2):
        replaced.arm()
        replaced.arm()
        assert model.step(2, factor=3) == 106
        kept = model.step
        replaced.disarm()
        replaced.disarm()
        assert (model.step(2, factor=3), kept(2, factor=3)) == (6, 6)

    assert calls == [((2,), {"factor": 3})] * 2
    assert vars(model) == {}


def test_the_replacement_looks_like_the_method() -> None:
    replaced, _ = _replaced(model := Model())
    replaced.arm()

    assert (model.step.__name__, model.step.__doc__) == ("step", "Compute.")
    assert [*inspect.signature(model.step).parameters] == ["batch", "factor"]


def test_a_copy_has_the_method_itself() -> None:
    replaced, calls = _replaced(model := Model())
    replaced.arm()

    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.step(5) == 5
    assert calls == []


def test_what_others_have_put_in_its_place_since_stays() -> None:
    replaced, calls = _replaced(model := Model())
    own = model.step = lambda batch: -batch  # type: ignore[method-assign,assignment,misc]
    replaced.arm()
    assert model.step(5) == 95
    armed = model.step
    model.step = lambda batch: armed(batch) * 2  # type: ignore[method-assign,assignment,misc]
    replaced.disarm()
    assert model.step(5) == -10  # the one around is silent

    replaced.arm()
    replaced.disarm()
    assert model.step(5) == -10
    model.step = own
    replaced.arm()
    replaced.disarm()
    assert vars(model)["step"] is own
    assert len(calls) == 1
