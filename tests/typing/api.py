"""Ordinary user code; it only has to type-check (``mypy tests/typing``)."""

from __future__ import annotations

from pathlib import Path

import lightning as L
import numpy as np
import torch
from torch import nn
from typing_extensions import assert_type

from mindsummary_lightning import (
    EvalLineage,
    ImageSummary,
    MindInsightLogger,
    SummaryCollector,
    SummaryLandscape,
    SummaryReader,
    SummaryRecord,
    TensorSummary,
    TrainLineage,
    filter_summary_lineage,
    get_summary_lineage,
    scalar_summary,
)


class Net(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.record_image = ImageSummary()
        self.record_tensor = TensorSummary()

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        out: torch.Tensor = self.layer(batch)
        scalar_summary("mean", out.mean())
        self.record_tensor("out", out)
        self.record_image("image", batch)
        loss = out.square().mean()
        self.log("train/loss", loss)
        return loss


def train() -> str:
    logger = MindInsightLogger("runs", name="digits", version=None, prefix="a", raise_exception=False)
    collector = SummaryCollector(
        collect_freq=5,
        collect_specified_data={"histogram_regular": "layer.*", "collect_landscape": {"unit": "epoch"}},
        custom_lineage_data={"note": "first", "fold": 3, "dropout": 0.5},
        collect_gradients=True,
    )
    trainer = L.Trainer(
        logger=logger, callbacks=[collector, TrainLineage(logger), EvalLineage(Path("runs") / "lineage")]
    )
    trainer.fit(Net())
    logger.log_image("prediction", [np.zeros((3, 8, 8), dtype=np.float32)], step=1)
    logger.log_histogram("weights", torch.zeros(8))
    assert_type(logger.experiment, SummaryRecord)
    logger.experiment.add_scalar("x", 1.0, 2)
    return logger.log_dir


def record(run: Path) -> bool:
    with SummaryRecord(run, max_file_size=2**20, export_options={"tensor_format": "npy"}) as summary_record:
        summary_record.add_value("scalar", "loss", torch.tensor(0.5))
        return summary_record.record(1, plugin_filter=lambda plugin: plugin == "scalar")


def read(run: Path) -> float:
    reader = SummaryReader(run)
    series = reader.scalars("loss")
    for _step, _wall_time, histogram in reader.histograms("layer.weight/auto"):
        print(histogram.counts.sum())
    SummaryLandscape(str(run)).clean_ckpt()
    print(get_summary_lineage(str(run)), filter_summary_lineage(str(run.parent)))
    return float(series.values[-1])
