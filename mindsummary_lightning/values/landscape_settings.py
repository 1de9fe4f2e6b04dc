"""Settings of loss landscapes: resolution, samples, and steps or epochs.

The keys, defaults and ranges are those of MindSpore's ``collect_landscape``. This module reads and
writes no files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Any

_UNITS = ("step", "epoch")
_SIZES = range(3, 257)
SHORTEST_INTERVAL = 3


@dataclass(frozen=True, slots=True)
class LandscapeSettings:
    """Checked settings of the loss landscapes of a run.

    Attributes:
        landscape_size: grid points on each axis, 3 to 256.
        unit: what the numbers in ``intervals`` count, ``"step"`` (optimizer steps from 1) or
            ``"epoch"`` (from 1).
        num_samples: samples whose mean loss is one grid point, at least 1; rounded down to complete
            batches, but at least one.
        train: compute one landscape per interval (PCA of its checkpoints).
        result: compute the landscape around the last checkpoint (random directions).
        intervals: for each training landscape at least 3 ascending step or epoch numbers; no two
            with the same ends, which name a landscape.

    Example:
        >>> LandscapeSettings.from_dict({"landscape_size": 20, "intervals": [[1, 2, 3]]}).intervals
        ((1, 2, 3),)
    """

    landscape_size: int = 40
    unit: str = "step"
    num_samples: int = 2048
    train: bool = True
    result: bool = True
    intervals: tuple[tuple[int, ...], ...] = (tuple(range(1, 10)), tuple(range(10, 20)))

    def __post_init__(self) -> None:
        _check("landscape_size", self.landscape_size, int, "an int")
        if self.landscape_size not in _SIZES:
            raise ValueError(f"landscape_size must be from 3 to 256, not {self.landscape_size}")
        _check("unit", self.unit, str, "a str")
        if self.unit not in _UNITS:
            raise ValueError(f"unit must be 'step' or 'epoch', not {self.unit!r}")
        _check("num_samples", self.num_samples, int, "an int")
        if self.num_samples < 1:
            raise ValueError(f"num_samples must be at least 1, not {self.num_samples}")
        for key in ("train", "result"):
            _check(f"create_landscape[{key!r}]", getattr(self, key), bool, "a bool")
        object.__setattr__(self, "intervals", _checked_intervals(self.intervals))

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], base: LandscapeSettings | None = None
    ) -> LandscapeSettings:
        """Build the settings from MindSpore's ``collect_landscape`` dict.

        Args:
            values: any of ``landscape_size``, ``unit``, ``num_samples``, ``create_landscape`` (a
                dict with ``train`` and ``result``) and ``intervals``.
            base: values of absent keys; ``None`` means the defaults.

        Raises:
            TypeError: a value has the wrong type; the message names the key.
            ValueError: a key is unknown, or a value is out of range.
        """
        _check("collect_landscape", values, Mapping, "a dict or None")
        _check_keys("collect_landscape", values, cls.known_keys())
        changes = {key: value for key, value in values.items() if key != "create_landscape"}
        if "create_landscape" in values:
            wanted = values["create_landscape"]
            _check("create_landscape", wanted, Mapping, "a dict")
            _check_keys("create_landscape", wanted, ("train", "result"))
            changes |= wanted
        return replace(base or cls(), **changes)

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """Return the keys of a ``collect_landscape`` dict, named as in MindSpore."""
        return (
            *(field.name for field in fields(cls) if field.name not in ("train", "result")),
            "create_landscape",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a dict for JSON, which :meth:`from_dict` accepts."""
        values = asdict(self)
        values["create_landscape"] = {key: values.pop(key) for key in ("train", "result")}
        values["intervals"] = [list(interval) for interval in self.intervals]
        return values

    def wants(self, number: int) -> bool:
        """Tell whether a landscape needs the parameters of a step or epoch.

        ``number`` counts steps or epochs (see ``unit``) from 1.
        """
        return any(number in interval for interval in self.intervals)


def _check(name: str, value: Any, kind: type | tuple[type, ...], expected: str) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{name} must be {expected}, not {type(value).__name__}")


def _check_keys(name: str, values: Mapping[str, Any], known: Iterable[str]) -> None:
    unknown = [key for key in values if key not in known]
    if unknown:
        raise ValueError(f"unknown keys of {name}: {unknown}; known keys are {list(known)}")


def _checked_intervals(intervals: Any) -> tuple[tuple[int, ...], ...]:
    _check("intervals", intervals, (list, tuple), "a list of lists")
    if not intervals:
        raise ValueError("intervals must hold at least one interval")
    for interval in intervals:
        _check("each interval in intervals", interval, (list, tuple, range), "a list of ints")
        for number in interval:
            _check("each number in intervals", number, int, "an int")
        if len(interval) < SHORTEST_INTERVAL:
            raise ValueError(f"each interval must have at least 3 numbers, got {list(interval)}")
        if interval[0] < 1 or any(a >= b for a, b in pairwise(interval)):
            raise ValueError(
                f"the numbers of an interval must be ascending and at least 1, got {list(interval)}"
            )
    ends = [(interval[0], interval[-1]) for interval in intervals]
    if len(set(ends)) < len(ends):
        repeated = next(pair for pair in ends if ends.count(pair) > 1)
        raise ValueError(
            "two intervals must not have the same first and last number, got "
            f"{list(repeated)} twice, so that their landscapes would have the same name"
        )
    return tuple(tuple(interval) for interval in intervals)
