"""DDP over two stand-ins in two processes: gloo carries the gradients, as a vendor's library does
elsewhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L
import pytest

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader
from tests.accelerator.lightning_accelerator import StandInAccelerator, StandInDDPStrategy
from tests.accelerator.test_training import Net, data
from tests.warm_processes import run_two_ranks

pytestmark = pytest.mark.slow


def fit(folder: Path, accelerator: Any) -> None:
    L.seed_everything(0, verbose=False)
    collector = SummaryCollector(
        collect_freq=2,
        collect_gradients=True,
        collect_specified_data={"collect_landscape": None, "histogram_regular": ".*"},
    )
    trainer = L.Trainer(
        accelerator=accelerator, devices=2, strategy=StandInDDPStrategy(), max_steps=4,
        logger=MindInsightLogger(folder), callbacks=[collector], enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )  # fmt: skip
    trainer.fit(Net(), data())


def of_two_ranks(folder: Path, accelerator: Any) -> SummaryReader:
    done = run_two_ranks(fit, folder, accelerator)
    assert done.returncode == 0, done.stderr[-3000:]
    (run,) = (folder / "lightning_logs").iterdir()
    return SummaryReader(run)


def test_ddp_over_two_devices_is_recorded_once_as_on_the_cpu(tmp_path: Path) -> None:
    found, expected = (
        of_two_ranks(tmp_path / "npu", StandInAccelerator()),
        of_two_ranks(tmp_path / "cpu", "cpu"),
    )
    assert found.tags() == expected.tags()
    for tag in expected.tags()["scalar"]:
        assert (
            found.scalars(tag).steps.tolist() == expected.scalars(tag).steps.tolist() == [1, 2, 4]
        )
        assert found.scalars(tag).values.tolist() == pytest.approx(
            expected.scalars(tag).values.tolist(), rel=1e-5
        )
    lineage = found.lineage()
    assert (lineage.train.device_num, lineage.train.parallel_mode) == (2, "standinddp")
    assert lineage.custom.values["accelerator"] == "npu"
