"""How a loader picks samples: the sampler with its parameters, and whether it shuffles."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from mindsummary_lightning.dataset.stage_parameters import parameters_of, public_fields, read, shown_name
from mindsummary_lightning.values.lineage_info import Operation

__all__ = ["sampler_of", "sampler_operation", "shuffles"]

_MAX_WEIGHTS = 32
_MAX_NESTING = 8
_NOT_PARAMETERS = frozenset({"data_source", "dataset", "generator", "indices", "weights", "sampler", "batch_sampler"})


def sampler_of(loader: Any) -> Any:  # Any: a loader of any class
    """The sampler that picks single samples: the one inside a batch sampler and inside Lightning's wrappers."""
    batch_sampler = read(loader, "batch_sampler")
    sampler = read(batch_sampler, "sampler") if batch_sampler is not None else None
    sampler = read(loader, "sampler") if sampler is None else sampler
    if sampler is None or type(sampler).__name__ == "_InfiniteConstantSampler":  # torch's stand-in: it picks nothing
        return None
    return sampler


def shuffles(sampler: Any) -> bool:
    """Whether the samples come in random order."""
    if sampler is None:
        return False
    shuffle = read(sampler, "shuffle")
    if isinstance(shuffle, bool):
        return shuffle
    return "Random" in type(sampler).__name__ or any(shuffles(inner) for inner in _wrapped(sampler))


def sampler_operation(sampler: Any) -> Operation:
    """The sampler as the ``sampler`` of a data source: its class and the numbers and texts it holds."""
    fields: dict[str, Any] = {"sampler_name": shown_name(type(sampler).__name__)}
    weights: tuple[float, ...] = ()
    for depth, part in enumerate(_chain(sampler)):
        if depth:
            fields.setdefault("wraps", shown_name(type(part).__name__))
        for name, value in _numbers(part).items():
            fields.setdefault(name, value)
        weights = weights or _weights(part)
    return Operation(parameters_of(fields), weights=weights)


def _chain(sampler: Any) -> list[Any]:
    chain = [sampler]
    while len(chain) < _MAX_NESTING and (inner := _wrapped(chain[-1])):
        chain.append(inner[0])
    return chain


def _wrapped(sampler: Any) -> list[Any]:
    """The sampler inside another: torch's BatchSampler, Lightning's DistributedSamplerWrapper."""
    inner = read(sampler, "sampler")
    if inner is None:
        inner = read(read(sampler, "dataset"), "_sampler")
    return [] if inner is None or inner is sampler else [inner]


def _numbers(sampler: Any) -> dict[str, Any]:
    fields = public_fields(sampler)
    numbers = {name: value for name, value in fields.items() if isinstance(value, (bool, int, float, str))}
    kept = {name: value for name, value in numbers.items() if name not in _NOT_PARAMETERS}
    if isinstance(count := read(sampler, "num_samples"), int):
        kept["num_samples"] = count
    if isinstance(indices := fields.get("indices"), Sized):
        kept["indices"] = f"{len(indices)} indices"
    return kept


def _weights(sampler: Any) -> tuple[float, ...]:
    weights = read(sampler, "weights")
    try:
        return tuple(float(weight) for weight in weights) if 0 < len(weights) <= _MAX_WEIGHTS else ()
    except (TypeError, ValueError):
        return ()
