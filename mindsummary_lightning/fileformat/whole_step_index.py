"""Encode and decode ``index.json``, the index of a recorded step's tensors."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from mindsummary_lightning.values.whole_step import (
    StoredCall,
    StoredModule,
    StoredOptimizer,
    StoredState,
    StoredTensor,
    StoredWeight,
    WholeStep,
)

# Any, in this module: parts of decoded JSON.
FORMAT = "mindsummary whole step"
VERSION = 1


def encode_whole_step(step: WholeStep) -> bytes:
    """Encode the index of a step that was recorded with its complete tensors.

    Raises:
        TypeError: a setting of a module or optimizer is not a JSON value.
    """
    content = {"format": FORMAT, "version": VERSION, **dataclasses.asdict(step)}
    return json.dumps(content).encode()


def decode_whole_step(content: bytes) -> WholeStep:
    """Decode the index of a step that was recorded with its complete tensors.

    Raises:
        ValueError: the content is not such an index, or has another version.
    """
    try:
        found = json.loads(content)
        if found.get("format") != FORMAT:
            raise ValueError(
                f"a whole_step_<n>.npz file must have the format {FORMAT!r}, got "
                f"{found.get('format')!r}. Give a run that this package has recorded"
            )
        if found.get("version") != VERSION:
            raise ValueError(
                f"the format version of a whole_step_<n>.npz file must be {VERSION}, got "
                f"{found.get('version')!r}. Record the step again with this release"
            )
        del found["format"], found["version"]
        return _step(found)
    except (
        json.JSONDecodeError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        UnicodeDecodeError,
    ) as error:
        raise ValueError(
            "index.json of a whole_step_<n>.npz file must be the index of a recorded step, got "
            f"{error!r}. Record the step again"
        ) from error


def _step(found: dict[str, Any]) -> WholeStep:
    parts: dict[str, Any] = {
        "modules": tuple(StoredModule(**module) for module in found["modules"]),
        "calls": tuple(_call(call) for call in found["calls"]),
        "batches": tuple(_tensors(batch) for batch in found["batches"]),
        "weights": tuple(_weight(weight) for weight in found["weights"]),
        "losses": _tensors(found["losses"]),
        "optimizers": tuple(_optimizer(optimizer) for optimizer in found["optimizers"]),
        "random_state": _tensor(found["random_state"]),
    }
    return WholeStep(**{**found, **parts})


def _call(found: dict[str, Any]) -> StoredCall:
    ports = {name: _tensors(found[name]) for name in ("inputs", "outputs", "output_gradients")}
    return StoredCall(**{**found, **ports})


def _weight(found: dict[str, Any]) -> StoredWeight:
    states = ("before", "after", "gradient", "stepped_gradient")
    return StoredWeight(**{**found, **{name: _tensor(found[name]) for name in states}})


def _optimizer(found: dict[str, Any]) -> StoredOptimizer:
    weights = tuple(tuple(names) for names in found["weights"])
    state = tuple(_state(each) for each in found["state"])
    return StoredOptimizer(found["kind"], tuple(found["groups"]), weights, state)


def _state(found: dict[str, Any]) -> StoredState:
    tensor = _tensor(found["tensor"])
    if tensor is None:
        raise TypeError("index.json is damaged: an optimizer state has null in place of a tensor")
    return StoredState(found["weight"], found["name"], tensor)


def _tensors(found: list[dict[str, Any]]) -> tuple[StoredTensor, ...]:
    return tuple(StoredTensor(**{**tensor, "shape": tuple(tensor["shape"])}) for tensor in found)


def _tensor(found: dict[str, Any] | None) -> StoredTensor | None:
    return None if found is None else _tensors([found])[0]
