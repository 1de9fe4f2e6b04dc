"""The chain of a step on the stand-in: one copy, no wait, and the rows of the CPU."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from mindsummary_lightning import SummaryReader
from mindsummary_lightning.types import OutputStatistics
from tests.accelerator import npu
from tests.accelerator.test_training import STEPS, collector, fit

CHAIN = (1, 5, 10)


def spent(
    folder: Path, device: str = "npu:0", **options: object
) -> tuple[Counter[str], OutputStatistics | None]:
    """What a training asked the device for, and its table."""
    before = Counter(npu.counts())
    logger = fit(folder, collector(**options), device=device)
    counts = Counter(npu.counts())
    counts.subtract(before)
    counts.pop("bytes_to_host", None)
    return counts, SummaryReader(logger.log_dir).output_statistics()


def test_a_recorded_step_needs_no_copy_of_its_own_and_no_wait(tmp_path: Path) -> None:
    plain, _ = spent(tmp_path / "plain")
    recorded, table = spent(tmp_path / "recorded", collect_output_statistics=CHAIN)

    assert recorded == plain
    assert table.steps.tolist() == [*CHAIN]


def test_the_rows_are_those_of_the_cpu(tmp_path: Path) -> None:
    _, ours = spent(tmp_path / "npu", collect_output_statistics=CHAIN)
    _, cpu = spent(tmp_path / "cpu", "cpu", collect_output_statistics=CHAIN)

    assert [row.key for row in ours.rows] == [row.key for row in cpu.rows]
    np.testing.assert_allclose(ours.values[0], cpu.values[0], rtol=1e-4, atol=1e-6)
    assert STEPS not in ours.steps
