"""What statistics of every parameter cost a training: CPU seconds, as a ratio to the same collector without them.

``python benchmarks/every_parameter.py [--rounds N]``. A small GPT, whose parameters are few and large, and a chain of
1,000 small layers, which has 2,000 parameters and does little else. Beside them two ways to learn less by hand:
``lightning.pytorch.utilities.grad_norm`` logged as a dict, and a scalar of each gradient's norm, as ``wandb.watch``
takes them. All ways train at once and take turns.
"""

from __future__ import annotations

import argparse
import gc
import logging
import random
import time
import warnings
from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
import overhead
import paired
import torch
from lightning.pytorch.utilities import grad_norm
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import MindInsightLogger, SummaryCollector
from mindsummary_lightning.conversion.heat_map import heat_map

_STEPS = 200


class Gpt(pl.LightningModule):
    """Four transformer layers that predict the next byte; 1.9 million elements in 53 parameters."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(192, 6, 768, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.embedding, self.head = nn.Embedding(256, 192), nn.Linear(192, 256)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        """Predict each byte from those before it."""
        (text,) = batch
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1])
        scores = self.head(self.blocks(self.embedding(text), mask, is_causal=True))
        return nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1), text[:, 1:].flatten())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


class Chain(pl.LightningModule):
    """1,000 layers of 72 elements."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(8, 8) for _ in range(1000)])

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        """Keep the size of the batch."""
        return (self.layers(batch[0]) - 1).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=1e-3)


class _ByHand(pl.Callback):
    """Logs numbers of the gradients by hand, every so many steps."""

    def __init__(self, numbers: Callable[[nn.Module], dict[str, Any]], every: int) -> None:
        self._numbers, self._every = numbers, every

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Log them."""
        if (trainer.global_step + 1) % self._every == 0:
            trainer.logger.log_metrics(self._numbers(pl_module), trainer.global_step)


def _scalar_of_each(module: nn.Module) -> dict[str, Any]:
    return {name: float(part.grad.norm()) for name, part in module.named_parameters() if part.grad is not None}


def _norms(module: nn.Module) -> dict[str, Any]:
    return {name: float(norm) for name, norm in grad_norm(module, 2).items()}


def _collected(every: int, **options: Any) -> overhead.Setup:
    specified: Any = {"collect_metric": True}
    return lambda directory: (
        MindInsightLogger(directory),
        [SummaryCollector(None, every, specified, False, **options)],
    )


def _by_hand(numbers: Callable[[nn.Module], dict[str, Any]], every: int) -> overhead.Setup:
    specified: Any = {"collect_metric": True}
    return lambda directory: (
        MindInsightLogger(directory),
        [SummaryCollector(None, every, specified, False), _ByHand(numbers, every)],
    )


def _ways(every: int) -> dict[str, overhead.Setup]:
    return {
        "without": _collected(every),
        "statistics": _collected(every, collect_parameter_statistics=True),
        "and updates": _collected(every, collect_parameter_statistics=True, collect_parameter_updates=True),
        "grad_norm": _by_hand(_norms, every),
        "a scalar each": _by_hand(_scalar_of_each, every),
    }


def _fit(make: Callable[[], pl.LightningModule], data: torch.Tensor, batch: int) -> Callable[..., object]:
    loader = DataLoader(TensorDataset(data), batch)
    return lambda **options: overhead.trainer(max_epochs=1, **options).fit(make(), loader)


def _pictures(rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of one picture; a run has at most six."""
    rows = {}
    for parameters in (50, 2000):
        names, numbers = [f"layer{number}.weight" for number in range(parameters)], torch.randn(parameters, 100).numpy()
        seconds = []
        for _ in range(rounds):
            start = time.process_time()
            heat_map("title", names, range(100), numbers)
            seconds.append(time.process_time() - start)
        rows[f"{parameters} parameters, 100 steps"] = {"a picture": seconds}
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in ("lightning.pytorch", "lightning.pytorch.utilities.rank_zero", "mindsummary_lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    random.seed(0)
    rows = {}
    for net, fit in (
        ("GPT", _fit(Gpt, torch.randint(256, (_STEPS * 2, 128)), 2)),
        ("1,000 layers", _fit(Chain, torch.randn(_STEPS * 4, 8), 4)),
    ):
        for every in (10, 1):
            ways = _ways(every)
            overhead.trained_in_turns({"statistics": ways["statistics"]}, fit, 5)  # imports and caches
            gc.collect()
            gc.freeze()
            found = [overhead.trained_in_turns(ways, fit, 5) for _ in range(arguments.rounds)]
            rows[f"{net}, collect_freq={every}"] = {name: [seconds[name] for seconds in found] for name in ways}
    paired.report("every_parameter", f"{_STEPS} steps with statistics of parameters (CPU)", "s", 1, rows, "without")
    paired.report("pictures", "The picture", "ms", 1000, _pictures(arguments.rounds), "itself")


if __name__ == "__main__":
    main()
