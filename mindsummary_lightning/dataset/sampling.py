"""The sampler of a loader: its parameters, and whether it shuffles."""

from __future__ import annotations

from typing import Any

from mindsummary_lightning.dataset.stage_parameters import parameters_of, public_fields, read, shown_name
from mindsummary_lightning.values.lineage_info import Operation

__all__ = ["sampler_of", "sampler_operation", "shuffles"]

_MAX_WEIGHTS = 32


def sampler_of(loader: Any) -> Any:  # Any: a loader of any class
    """The sampler that picks single samples, also that inside a batch sampler; ``None`` if there is none."""
    sampler = read(read(loader, "batch_sampler"), "sampler")
    sampler = read(loader, "sampler") if sampler is None else sampler
    # torch gives an iterable data set a sampler of this class, which picks nothing.
    return None if type(sampler).__name__ == "_InfiniteConstantSampler" else sampler


def shuffles(sampler: Any) -> bool:
    """Whether the samples come in random order."""
    shuffle = read(sampler, "shuffle")  # torch's DistributedSampler
    return shuffle if isinstance(shuffle, bool) else "Random" in type(_innermost(sampler)).__name__


def sampler_operation(sampler: Any) -> Operation:
    """The sampler as the ``sampler`` of a data source: its class and the numbers and texts it holds."""
    inner = _innermost(sampler)
    fields: dict[str, Any] = {"sampler_name": shown_name(type(sampler).__name__)}
    if inner is not sampler:
        fields["wraps"] = shown_name(type(inner).__name__)
    for part in (inner, sampler):
        values = public_fields(part)
        fields |= {name: value for name, value in values.items() if isinstance(value, (bool, int, float, str))}
        if isinstance(count := read(part, "num_samples"), int):
            fields["num_samples"] = count
    return Operation(parameters_of(fields), weights=_weights(inner))


def _innermost(sampler: Any) -> Any:
    """The sampler whose choice Lightning's wrapper shares out among devices."""
    inner = read(read(sampler, "dataset"), "_sampler")
    return sampler if inner is None else inner


def _weights(sampler: Any) -> tuple[float, ...]:
    weights = read(sampler, "weights")
    try:
        return tuple(float(weight) for weight in weights) if 0 < len(weights) <= _MAX_WEIGHTS else ()
    except (TypeError, ValueError):
        return ()
