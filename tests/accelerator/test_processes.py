"""DDP over two stand-ins in two processes: gloo carries the gradients, as a vendor's library does elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L
import pytest

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader
from tests.accelerator.lightning_accelerator import StandInAccelerator, StandInDDPStrategy
from tests.accelerator.test_training import Net, data

pytestmark = pytest.mark.slow


def fit(folder: Path, accelerator: Any) -> SummaryReader:
    L.seed_everything(0, verbose=False)
    collector = SummaryCollector(
        collect_freq=2,
        collect_gradients=True,
        collect_specified_data={"collect_landscape": None, "histogram_regular": ".*"},
    )
    trainer = L.Trainer(
        accelerator=accelerator, devices=2, strategy=StandInDDPStrategy(start_method="spawn"), max_steps=4,
        logger=MindInsightLogger(folder), callbacks=[collector], enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False,
    )  # fmt: skip
    trainer.fit(Net(), data())
    (run,) = (folder / "lightning_logs").iterdir()
    return SummaryReader(run)


def test_ddp_over_two_devices_is_recorded_once_as_on_the_cpu(tmp_path: Path) -> None:
    found, expected = fit(tmp_path / "npu", StandInAccelerator()), fit(tmp_path / "cpu", "cpu")
    assert found.tags() == expected.tags()
    for tag in expected.tags()["scalar"]:
        assert found.scalars(tag).steps.tolist() == expected.scalars(tag).steps.tolist() == [1, 2, 4]
        assert found.scalars(tag).values.tolist() == pytest.approx(expected.scalars(tag).values.tolist(), rel=1e-5)
    lineage = found.lineage()
    assert lineage.train is not None
    assert (lineage.train.device_num, lineage.train.parallel_mode) == (2, "standinddp")
    assert lineage.custom is not None
    assert lineage.custom.values["accelerator"] == "npu"
