"""What a training pays for being recorded: CPU seconds with each logger, as a ratio to
``logger=False``.

``python benchmarks/overhead.py [--steps N] [--rounds N]``. An MLP logs one value each step, once at
a common size and once so small that a step is little but Lightning's own work; the demo's CNN logs
as the demo does. All ways train at once and take turns every few steps, in another order each time,
so that a machine which changes its speed changes it for all of them. The null logger does nothing:
what it costs is Lightning's own.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import random
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
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

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 10))

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        """Log the loss."""
        loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        self.log("train/loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=0.01)


class _Turns(pl.Callback):
    """A training in a thread of its own, which runs only during its turns of so many steps."""

    def __init__(
        self, setup: Setup, fit: Callable[..., object], directory: str, steps: int
    ) -> None:
        self.seconds = 0.0
        self.is_over = False
        self._steps = steps
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._train, args=(setup, fit, directory))
        self._thread.start()

    def take_one(self) -> None:
        """Let it train for one turn; the CPU seconds of the process meanwhile are its own."""
        start = time.process_time()
        self._go.release()
        self._back.acquire()
        self.seconds += time.process_time() - start
        if self.is_over:
            self._thread.join()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Wait for the next turn, if this one is over."""
        if trainer.global_step % self._steps == 0:
            self._back.release()
            self._go.acquire()

    def _train(self, setup: Setup, fit: Callable[..., object], directory: str) -> None:
        self._go.acquire()
        try:
            torch.set_num_threads(1)
            torch.manual_seed(0)
            logger, callbacks = setup(directory)
            fit(logger=logger, callbacks=[*callbacks, self])
        finally:
            self.is_over = True
            self._back.release()


def trained_in_turns(
    ways: Mapping[str, Setup], fit: Callable[..., object], steps: int
) -> dict[str, float]:
    """CPU seconds of one training each, files and all, in turns of so many steps."""
    with tempfile.TemporaryDirectory() as directory:
        trainings = {
            name: _Turns(setup, fit, os.path.join(directory, name), steps)
            for name, setup in ways.items()
        }
        left = list(trainings.values())
        while left:
            random.shuffle(left)
            for training in left:
                training.take_one()
            left = [training for training in left if not training.is_over]
        return {name: training.seconds for name, training in trainings.items()}


def trainer(**options: Any) -> pl.Trainer:
    quiet = {
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
    }
    return pl.Trainer(accelerator="cpu", devices=1, **quiet, **options)


def mlp(steps: int, inputs: int, hidden: int, batch: int) -> Callable[..., object]:
    data = DataLoader(
        TensorDataset(torch.randn(steps * batch, inputs), torch.randint(10, (steps * batch,))),
        batch,
    )
    return lambda **options: trainer(max_epochs=1, log_every_n_steps=1, **options).fit(
        Mlp(inputs, hidden), data
    )


def demo_cnn(steps: int) -> Callable[..., object]:
    return lambda **options: trainer(
        max_steps=steps, max_epochs=-1, log_every_n_steps=5, **options
    ).fit(digits.DigitsNet(), digits.DigitsData())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
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
    random.seed(0)
    count = arguments.steps
    alone = ("logger=False", "null logger", "MindInsightLogger")
    pair = ("logger=False", "null logger", "the pair")
    # SerializedCalls of less than a tenth of a second: a machine that others share changes its
    # speed in longer ones.
    for work, fit, steps, names in (
        (
            f"MLP 784-128-10, batches of 32, {count} steps, self.log each",
            mlp(count, 784, 128, 32),
            40,
            tuple(_WAYS),
        ),
        (
            f"MLP 32-64-10, batches of 16, {count} steps, self.log each",
            mlp(count, 32, 64, 16),
            50,
            alone,
        ),
        (f"demo CNN, {count} steps", demo_cnn(count), 20, pair),
    ):
        ways = {name: _WAYS[name] for name in names}
        trained_in_turns({"the pair": _WAYS["the pair"]}, fit, steps)  # imports and caches
        gc.collect()
        # else a collection of what the imports left, a third of a second, is one way's bad luck
        gc.freeze()
        found = [trained_in_turns(ways, fit, steps) for _ in range(arguments.rounds)]
        rows[work] = {name: [seconds[name] for seconds in found] for name in ways}
    paired.report(
        "overhead",
        "What a training pays for its logger (CPU)",
        "s",
        1.0,
        rows,
        first="logger=False",
    )


if __name__ == "__main__":
    main()
