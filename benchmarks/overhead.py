"""What a training pays for being recorded: CPU seconds with each logger, as a ratio to ``logger=False``.

``python benchmarks/overhead.py [--steps N] [--rounds N]``. A small MLP logs one value each step, the hardest case for a
logger; the demo's CNN logs as the demo does. All ways take turns, each in a fresh directory, and the least of the
rounds counts. The null logger does nothing: what it costs is Lightning's own.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir, "examples"))

import digits
import lightning.pytorch as pl
import paired
import torch
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.loggers.logger import DummyLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import MindInsightLogger, SummaryCollector

Setup = Callable[[str], tuple[Any, list[Any]]]

_WAYS: dict[str, Setup] = {
    "logger=False": lambda directory: (False, []),
    "null logger": lambda directory: (DummyLogger(), []),
    "MindInsightLogger": lambda directory: (MindInsightLogger(directory), []),
    "the pair": lambda directory: (MindInsightLogger(directory), [SummaryCollector()]),
    "CSVLogger": lambda directory: (CSVLogger(directory), []),
    "TensorBoardLogger": lambda directory: (TensorBoardLogger(directory), []),
}


class Mlp(pl.LightningModule):
    """Two layers, and one logged value a step."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        """Log the loss."""
        loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        self.log("train/loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=0.01)


def trained(setup: Setup, fit: Callable[..., object]) -> float:
    """CPU seconds of one training, files and all."""
    with tempfile.TemporaryDirectory() as directory:
        logger, callbacks = setup(directory)
        torch.manual_seed(0)
        start = time.process_time()
        fit(logger=logger, callbacks=callbacks)
        return time.process_time() - start


def trainer(**options: Any) -> pl.Trainer:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    return pl.Trainer(accelerator="cpu", devices=1, **quiet, **options)


def mlp(steps: int) -> Callable[..., object]:
    data = DataLoader(TensorDataset(torch.randn(steps * 16, 32), torch.randint(10, (steps * 16,))), 16)
    return lambda **options: trainer(max_epochs=1, log_every_n_steps=1, **options).fit(Mlp(), data)


def demo_cnn(steps: int) -> Callable[..., object]:
    return lambda **options: trainer(max_steps=steps, max_epochs=-1, log_every_n_steps=5, **options).fit(
        digits.DigitsNet(), digits.DigitsData()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in (
        "lightning.pytorch.utilities.rank_zero",
        "lightning.pytorch",
        "pytorch_lightning",
        "mindsummary_lightning",
    ):
        logging.getLogger(name).setLevel(logging.ERROR)

    rows = {}
    steps = arguments.steps
    for work, fit in (
        (f"MLP, {steps} steps, self.log each", mlp(steps)),
        (f"demo CNN, {steps} steps", demo_cnn(steps)),
    ):
        trained(_WAYS["the pair"], fit)  # imports and caches
        ways = {name: (lambda setup=setup, fit=fit: trained(setup, fit)) for name, setup in _WAYS.items()}
        rows[work] = paired.least(ways, arguments.rounds)
    paired.report("overhead", "What a training pays for its logger (CPU)", "s", 1.0, rows, first="logger=False")


if __name__ == "__main__":
    main()
