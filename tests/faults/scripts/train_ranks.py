"""Fit with the pair in several processes, each of which logs what it can; the run is ``run`` in the directory.

A process of a rank above 0 that makes a file or directory there says so.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import lightning
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch import nn

from mindsummary_lightning import MindInsightLogger, SummaryCollector


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    makes = event == "os.mkdir" or (event == "open" and (arguments[2] or 0) & os.O_CREAT)
    rank = getattr(rank_zero_only, "rank", 0)
    if makes and rank and os.path.abspath(str(arguments[0])).startswith(sys.argv[1]):
        os.write(1, f"rank {rank} makes {arguments[0]}\n".encode())


sys.addaudithook(watch)  # here, so that a spawned process has it too


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        loss: torch.Tensor = self.layer(batch).square().mean()
        self.logger.experiment.add_scalar(f"of rank {self.global_rank}", float(index), index)  # type: ignore[union-attr]
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.01)


def main(directory: str, strategy: str, processes: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=int(processes),
        strategy=strategy,
        max_epochs=1,
        logger=MindInsightLogger(directory, name="", version="run"),
        callbacks=[SummaryCollector()],
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(Net(), torch.utils.data.DataLoader(torch.rand(160, 4), batch_size=4))


if __name__ == "__main__":
    main(*sys.argv[1:])
