"""Record scalars and read them back: what is checked on Windows and macOS, too."""

from __future__ import annotations

from pathlib import Path

import lightning.pytorch as L
import torch
from lightning.pytorch.demos.boring_classes import BoringModel

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader, SummaryRecord


class _Net(BoringModel):
    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        self.log("square", float(batch_idx**2))
        loss: torch.Tensor = self.layer(batch).square().mean()
        return loss


def test_scalars_of_a_record_come_back(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path / "run") as record:
        for step in range(5):
            record.add_scalar("loss", step / 4, step)

    series = SummaryReader(tmp_path / "run").scalars("loss")
    assert (series.steps.tolist(), series.values.tolist()) == (
        [0, 1, 2, 3, 4],
        [0, 0.25, 0.5, 0.75, 1],
    )


def test_scalars_of_a_training_come_back(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path)
    trainer = L.Trainer(
        logger=logger, callbacks=[SummaryCollector(collect_freq=2)], max_steps=6,
        log_every_n_steps=2,
        enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
    )  # fmt: skip
    trainer.fit(_Net())

    run = SummaryReader(logger.log_dir)
    assert run.scalars("square").values.tolist() == [1, 9, 25]
    assert run.scalars("loss/auto").steps.tolist() == [1, 2, 4, 6]
