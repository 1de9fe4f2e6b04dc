"""The index of a step that was recorded with its complete tensors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mindsummary_lightning.fileformat.whole_step_index import decode_whole_step, encode_whole_step
from mindsummary_lightning.values.whole_step import (
    StoredCall,
    StoredModule,
    StoredOptimizer,
    StoredState,
    StoredTensor,
    StoredWeight,
    WholeStep,
)


def _tensor(number: int) -> StoredTensor:
    return StoredTensor(f"path.{number}", f"array_{number}", "float32", (number, 2))


_STEP = WholeStep(
    framework="mindspore",
    framework_version="2.7.0",
    step=7,
    precision="bfloat16",
    device="npu",
    modules=(StoredModule("", "Net"), StoredModule("a", "Dropout", False, {"p": 0.5})),
    calls=(
        StoredCall(
            "a", "Dropout", 1, 0, 2, 5, "net.py:3", (_tensor(1), _tensor(2)), (_tensor(3),),
            (_tensor(4),), True,
        ),
        StoredCall("", "Net", 0, -1, 1, 6),
    ),
    batches=((_tensor(5), _tensor(6)), (_tensor(7),), ()),
    weights=(
        StoredWeight("w", "parameter", *map(_tensor, (8, 9, 10, 11)), True),
        StoredWeight("b", "buffer", _tensor(12)),
    ),
    losses=(_tensor(13), _tensor(14)),
    optimizers=(
        StoredOptimizer(
            "SGD",
            ({"lr": 0.1}, {"lr": 0.2, "nesterov": True}),
            (("w",), ("b", "c")),
            (StoredState("w", "momentum", _tensor(15)), StoredState("", "step", _tensor(16))),
        ),
        StoredOptimizer("Adam"),
    ),
    loss_scale=1024.0,
    random_state=_tensor(17),
)  # fmt: skip


@pytest.mark.parametrize("step", [_STEP, WholeStep("torch", "2.13.0", 1)], ids=["full", "empty"])
def test_a_step_is_read_as_written(step: WholeStep) -> None:
    assert decode_whole_step(encode_whole_step(step)) == step


def test_a_setting_that_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        encode_whole_step(
            WholeStep("torch", "2", 1, modules=(StoredModule("", "", True, {"a": b""}),))
        )


def _changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    content = json.loads(encode_whole_step(_STEP))
    change(content)
    return json.dumps(content).encode()


@pytest.mark.parametrize("found", ["another", None])
def test_an_index_of_another_format_is_refused(found: str | None) -> None:
    with pytest.raises(
        ValueError,
        match=f"must have the format 'mindsummary whole step', got {found!r}. Give a run",
    ):
        decode_whole_step(_changed(lambda content: content.update(format=found)))


@pytest.mark.parametrize("found", [0, 2, "1", None])
def test_an_index_of_another_version_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match=f"file must be 1, got {found!r}. Record the step again"):
        decode_whole_step(_changed(lambda content: content.update(version=found)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"\xff\xfe",
        b"[" * 100_000,
        *[
            _changed(lambda content, name=name: content.pop(name))  # type: ignore[misc]
            for name in ("framework", "modules", "calls", "batches", "weights", "losses",
                         "optimizers", "random_state")
        ],
        _changed(lambda content: content.update(new=1)),
        _changed(lambda content: content["modules"][0].update(new=1)),
        _changed(lambda content: content["calls"][0].pop("inputs")),
        _changed(lambda content: content["weights"][1].pop("after")),
        _changed(lambda content: content["losses"][0].pop("shape")),
        _changed(lambda content: content["optimizers"][0]["state"][0].update(tensor=None)),
        _changed(lambda content: content["optimizers"][0].pop("groups")),
    ],
    ids=lambda content: content[-50:].decode("ascii", "replace"),
)  # fmt: skip
def test_another_content_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"must be the index of a recorded step, got .*Record"):
        decode_whole_step(content)
