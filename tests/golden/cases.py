"""The arrays that MindSpore and this package both record, so that their files can be laid over each
other.

NumPy only, importable in both environments. Every array is exact arithmetic on integers (no random
generator, no sine), so each NumPy on each processor builds the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Case:
    """One recorded value.

    Attributes:
        plugin: ``scalar``, ``tensor``, ``histogram`` or ``image``.
        name: what is special about it, unique within its plugin.
        value: the array handed to ``add_value``.
    """

    plugin: str
    name: str
    value: NDArray[Any] = field(repr=False)

    @property
    def tag(self) -> str:
        """The name it is recorded under."""
        return f"{self.plugin}: {self.name}"


def _spread(*shape: int) -> NDArray[np.float64]:
    """Float64 in [0, 1), scattered like noise but exact: a multiplicative hash of the index, 16
    bits of it.
    """
    index = np.arange(int(np.prod(shape)), dtype=np.uint64)
    hashed = (index * np.uint64(2654435761)) % np.uint64(2**32) >> np.uint64(16)
    scattered: NDArray[np.float64] = hashed.astype(np.float64) / 65536
    return scattered.reshape(shape)


def _mixed(finite: NDArray[Any]) -> NDArray[Any]:
    """``finite`` between two NaN, three +inf and one -inf."""
    ends = np.array([np.nan, np.inf, -np.inf, np.nan, np.inf, np.inf], dtype=finite.dtype)
    return np.concatenate([ends[:3], finite, ends[3:]])


def _scalars() -> list[Case]:
    values: dict[str, np.generic | NDArray[Any]] = {
        "float32 that has no short decimal": np.float32(0.1),
        "float64 rounds to float32": np.float64(3.141592653589793),
        "float16": np.float16(0.333251953125),
        "nan": np.float32(np.nan),
        "plus infinity": np.float32(np.inf),
        "minus infinity": np.float64(-np.inf),
        "float64 beyond float32": np.float64(1e40),
        "smallest denormal": np.float32(1e-45),
        "negative zero": np.float32(-0.0),
        "int64 beyond float32 digits": np.int64(2**53 + 1),
        "int8": np.int8(-7),
        "uint8": np.uint8(200),
        "bool": np.bool_(True),
        "one element of three dimensions": np.full((1, 1, 1), 2.5, dtype=np.float32),
    }
    return [Case("scalar", name, np.array(value)) for name, value in values.items()]


def _tensors() -> list[Case]:
    ramp = np.arange(12)
    values: dict[str, NDArray[Any]] = {
        "bool 1-d": ramp % 3 == 0,
        "int8 2-d": (ramp - 6).astype(np.int8).reshape(3, 4),
        "int16 3-d": (ramp * 1000 - 6000).astype(np.int16).reshape(2, 3, 2),
        "int32 beyond float32 digits": np.array([2**24 + 1, -(2**31), 2**31 - 1], dtype=np.int32),
        "int64 beyond float64 digits": np.array([2**53 + 1, -(2**63), 2**63 - 1], dtype=np.int64),
        "uint8 4-d": ramp.astype(np.uint8).reshape(2, 1, 3, 2),
        "uint16": np.array([0, 1, 65535], dtype=np.uint16),
        "uint32": np.array([0, 2**32 - 1], dtype=np.uint32),
        "uint64": np.array([0, 2**64 - 1], dtype=np.uint64),
        "float16 with nan and infinities": _mixed(np.array([0.5, -65504.0], dtype=np.float16)),
        "float32 with nan and infinities": _mixed((_spread(9) - 0.5).astype(np.float32)),
        "float32 4-d": (_spread(2, 3, 2, 2) - 0.5).astype(np.float32),
        "float64 rounds to float32": _spread(2, 5) / 3,
        "float64 beyond float32": np.array([1e40, -1e300, 1e-300]),
        "empty": np.zeros((0, 3), dtype=np.float32),
    }
    return [Case("tensor", name, value) for name, value in values.items()]


def _histograms() -> list[Case]:
    values: dict[str, NDArray[Any]] = {
        f"{n} float32": (_spread(n) * 6 - 3).astype(np.float32)
        for n in (1, 2, 5, 6, 10, 11, 57, 880, 881)
    }
    values |= {
        "no element": np.zeros((0,), dtype=np.float32),
        "no finite element": np.array([np.nan, np.inf, -np.inf, np.nan], dtype=np.float32),
        "one finite element among others": _mixed(np.array([1.25], dtype=np.float32)),
        "nan and infinities": _mixed((_spread(100) - 0.25).astype(np.float32)),
        "4-d float32": (_spread(4, 3, 5, 5) - 0.5).astype(np.float32),
        "constant float32": np.full((7,), 0.1, dtype=np.float32),
        "constant zero": np.zeros((30,), dtype=np.float32),
        "constant large float32": np.full((8,), 2.0**25, dtype=np.float32),
        "constant int32": np.full((20,), 4, dtype=np.int32),
        "constant uint8 zero": np.zeros((6,), dtype=np.uint8),
        "float16": (_spread(200) * 4 - 2).astype(np.float16),
        "float16 near its limit": (_spread(40) * 131008 - 65504).astype(np.float16),
        "float64": _spread(200) / 3,
        "float64 beyond float32": (_spread(50) - 0.5) * 2e300,
        "large float32": ((_spread(50) - 0.5) * 6e38).astype(np.float32),
        "small spread on a large float32": (np.arange(12) + 2.0**24).astype(np.float32),
        "denormals": (np.arange(12) * 1e-45).astype(np.float32),
        "int8": (_spread(60) * 256 - 128).astype(np.int8),
        "int32 narrower than its buckets": (np.arange(100) % 4).astype(np.int32),
        "int64 wide": ((np.arange(30) - 15) * 2**40).astype(np.int64),
        "uint8": (_spread(300) * 256).astype(np.uint8),
        "uint64": (np.arange(25) * 2**40).astype(np.uint64),
        "bool": np.arange(20) % 3 == 0,
    }
    return [Case("histogram", name, value) for name, value in values.items()]


def _images() -> list[Case]:
    unit = _spread
    values: dict[str, NDArray[Any]] = {
        "uint8 grey": (unit(1, 1, 5, 7) * 256).astype(np.uint8),
        "uint8 colour": (unit(1, 3, 5, 7) * 256).astype(np.uint8),
        "uint8 of small values": (unit(1, 1, 4, 4) * 2).astype(np.uint8),
        "float32 in 0..1": unit(1, 3, 6, 5).astype(np.float32),
        "float64 in 0..1": unit(1, 1, 6, 5) / 3,
        "float16 in 0..1": unit(1, 1, 6, 5).astype(np.float16),
        "float32 beyond 1": (unit(1, 3, 6, 5) * 300).astype(np.float32),
        "float32 with negatives": (unit(2, 1, 6, 5) * 4 - 2).astype(np.float32),
        "float64 with negatives": unit(1, 3, 6, 5) * 7 - 3,
        "float16 with negatives": (unit(1, 1, 6, 5) * 4 - 2).astype(np.float16),
        "int32": (unit(1, 3, 6, 5) * 1000 - 500).astype(np.int32),
        "int64 of 0 and 1": (unit(1, 1, 4, 4) * 2).astype(np.int64),
        "bool": unit(1, 1, 4, 4) > 0.5,
        "constant inside 0..1": np.full((1, 1, 3, 3), 0.5, dtype=np.float32),
        "constant above 1": np.full((1, 3, 3, 3), 5.0, dtype=np.float32),
        "constant below 0": np.full((1, 1, 3, 3), -1.0, dtype=np.float32),
        "three in a batch": unit(3, 1, 4, 3).astype(np.float32),
        "eight in a batch": (unit(8, 3, 3, 2) * 256).astype(np.uint8),
        "nine in a batch": unit(9, 1, 3, 2).astype(np.float32),
        "seventeen in a batch": (unit(17, 3, 2, 3) * 256).astype(np.uint8),
    }
    return [Case("image", name, value) for name, value in values.items()]


CASES: tuple[Case, ...] = (*_scalars(), *_tensors(), *_histograms(), *_images())
