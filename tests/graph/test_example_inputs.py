from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.graph.example_inputs import Call, forward_calls, tensors_in

A, B = torch.ones(1), torch.zeros(2)


class One(nn.Module):
    def forward(self, x: Any) -> Any:
        return x


class Two(nn.Module):
    def forward(self, x: Any, y: Any = None, *, scale: Any = None) -> Any:
        return x, y, scale


class Any_(nn.Module):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return args, kwargs


Pair = namedtuple("Pair", ["x", "y"])


@dataclass(frozen=True)
class Record:
    x: torch.Tensor
    y: tuple[torch.Tensor, str]


def first(module: nn.Module, example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    call = forward_calls(module, example)[0]
    return call.args, call.kwargs


@pytest.mark.parametrize(
    ("module", "example", "expected"),
    [
        (One(), A, ((A,), {})),
        (Two(), (A, B), ((A, B), {})),
        (Two(), [A, B], ((A, B), {})),
        (One(), (A, B), (((A, B),), {})),
        (Two(), {"x": A, "scale": B}, ((), {"x": A, "scale": B})),
        (One(), {"image": A}, (({"image": A},), {})),
        (One(), Pair(A, B), ((Pair(A, B),), {})),
        (Any_(), (), ((), {})),
        (One(), "text", (("text",), {})),
    ],
)
def test_the_likeliest_call_comes_first(module: nn.Module, example: Any, expected: Any) -> None:
    assert first(module, example) == expected


def test_an_annotated_tensor_is_tried_with_a_tensor_first() -> None:
    class Annotated(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    assert first(Annotated(), [A, B]) == ((A,), {})
    assert forward_calls(Annotated(), [A, B])[1].args == ([A, B],)  # an annotation may be wrong


def test_a_batch_with_a_target_is_shortened_when_the_signature_takes_less() -> None:
    assert Call((A,), {}) in forward_calls(One(), [A, B])


def test_fields_that_the_signature_does_not_name_are_left_out() -> None:
    assert Call((), {"x": A}) in forward_calls(Two(), {"x": A, "label": B})


def test_fields_of_an_object_may_be_the_arguments() -> None:
    assert Call((), {"x": A, "y": (B, "b")}) in forward_calls(Two(), Record(A, (B, "b")))


def test_an_example_that_fits_nothing_is_refused_with_the_signature() -> None:
    class KeywordOnly(nn.Module):
        def forward(self, *, left: Any) -> Any:
            return left

    with pytest.raises(GraphCaptureError, match=r"takes \(\*, left: .*tuple or a dict"):
        forward_calls(KeywordOnly(), A)


def test_tensors_are_named_by_argument_and_place() -> None:
    call = Call(({"image": A, "more": [B, "no tensor"]},), {"y": Pair(A, B)})

    assert [name for name, _ in call.named_tensors(Two())] == ["x.image", "x.more.0", "y.x", "y.y"]


def test_other_tensors_take_the_places_and_the_example_stays() -> None:
    example = Record(A, (B, "b"))
    call = Call((example, [A]), {"scale": {"k": B}})
    new = [torch.full((1,), float(number)) for number in range(4)]

    filled = call.filled(new)

    assert tensors_in((filled.args, filled.kwargs)) == new
    assert type(filled.args[0]) is Record
    assert filled.args[0].y[1] == "b"
    assert tensors_in((call.args, call.kwargs)) == [A, B, A, B]
    assert example.x is A
