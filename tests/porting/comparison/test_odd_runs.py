"""Runs of any shape are compared without an exception or a warning, and each is the same
as itself.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning import SummaryRecord, compare_runs
from mindsummary_lightning.porting.comparison.page import comparison_page

pytestmark = pytest.mark.slow

_LOSSES = (
    lambda step: 1 / (step + 1),
    lambda step: np.nan,
    lambda step: 0.0,
    lambda step: -step,
    lambda step: np.inf,
)


def _write(directory: Path, random: np.random.Generator, names: list[str]) -> Path:
    """Steps with gaps, tensors of few or equal or enormous numbers, of NaN, or missing; losses of
    any kind, or none.
    """
    first = np.random.default_rng(int(random.integers(2)))
    tensors = {
        name: first.normal(size=random.choice([1, 2, 64])) * random.choice([0, 1, 1e-30, 1e30])
        for name in names
    }
    steps = (
        sorted({*random.integers(0, 15, 12).tolist()}) if random.random() < 0.5 else [*range(1, 12)]
    )
    loss, has_loss, keep, is_bad = (
        random.choice(_LOSSES),
        random.random() < 0.7,
        random.choice([1, 0.6]),
        random.random(),
    )
    with SummaryRecord(directory) as record:
        for step in steps:
            record.add_value("scalar", "other", 1.0)
            if has_loss and random.random() < keep:
                record.add_value(
                    "scalar", random.choice(["loss/auto", "train_loss"]), np.float32(loss(step))
                )
            for name, tensor in tensors.items():
                if random.random() < keep:
                    bad = np.nan if is_bad < 0.2 and step > 3 else 1.0
                    record.add_value(
                        "histogram",
                        f"{name}/auto",
                        (tensor * (1 - 0.01 * step) * bad).astype(np.float32),
                    )
            record.record(step)
    return directory


@pytest.mark.parametrize("seed", range(60))
def test_odd_runs_are_compared(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    kinds = ["weight", "bias", "gamma", "weight.gradient"]
    names = list(
        dict.fromkeys(f"l{layer}.{random.choice(kinds)}" for layer in range(random.integers(0, 5)))
    )
    a, b = (_write(tmp_path / name, random, names) for name in ("a", "b"))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        comparison = compare_runs(a, b, same=a if seed % 2 else None)

    assert json.dumps(comparison.to_dict(), allow_nan=False)
    assert comparison_page(comparison)
    assert compare_runs(a, a).verdict in ("same", "not_comparable")
