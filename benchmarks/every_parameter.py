"""What statistics of every parameter cost a training: CPU seconds in the hooks that take them, as a
share of the rest.

``python benchmarks/every_parameter.py [--rounds N]``. A small GPT, whose parameters are few and
large, and a chain of 1,000 small layers, which has 2,000 parameters and does little else. Beside
them two ways to learn less by hand: ``lightning.pytorch.utilities.grad_norm`` logged as a dict, and
a scalar of each gradient's norm, as ``wandb.watch`` takes them. The seconds of the hooks are
divided by those of all else in the same training, so a machine that others share does not matter
and once is enough. Pictures, of which a run has six at most however long, are counted apart.

Then trainings of the GPT with statistics off and on take turns of ten steps, for three sizes of a
batch, and with them one that reads each gradient and weight once in ten steps, for its norm alone:
nothing that sees all elements is below.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
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
from mindsummary_lightning.collection import parameter_statistics

_STEPS = {10: 200, 1: 60}  # by collect_freq
_GRADIENTS = "statistics of gradients alone"
Numbers = Callable[[nn.Module], dict[str, Any]]


class Gpt(pl.LightningModule):
    """Four transformer layers that predict the next byte; 1.9 million elements in 53 parameters."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            192, 6, 768, 0.0, "gelu", batch_first=True, norm_first=True
        )
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

    def __init__(self, numbers: Numbers, every: int) -> None:
        self._numbers, self._every = numbers, every

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Log them."""
        if (trainer.global_step + 1) % self._every == 0:
            trainer.logger.log_metrics(self._numbers(pl_module), trainer.global_step)


def _scalar_of_each(module: nn.Module) -> dict[str, Any]:
    return {
        name: float(part.grad.norm())
        for name, part in module.named_parameters()
        if part.grad is not None
    }


def _norms(module: nn.Module) -> dict[str, Any]:
    return {name: float(norm) for name, norm in grad_norm(module, 2).items()}


class _Meter:
    """CPU seconds in the hooks of a callback, and of them those in pictures."""

    def __init__(self, callback: pl.Callback) -> None:
        self.seconds = self.pictures = 0.0
        for hook in (
            "on_train_batch_start",
            "on_before_optimizer_step",
            "on_train_batch_end",
            "on_train_end",
        ):
            setattr(callback, hook, self._timed(getattr(callback, hook), "seconds"))

    def draw(self, *arguments: Any) -> Any:
        """Draw, and count it apart."""
        return self._timed(_HEAT_MAP, "pictures")(*arguments)

    def _timed(self, method: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            start = time.thread_time()
            try:
                return method(*arguments)
            finally:
                setattr(self, kind, getattr(self, kind) + time.thread_time() - start)

        return run


_HEAT_MAP = parameter_statistics.heat_map
_MOVE_INTO = parameter_statistics.ParameterStatistics.move_into


def _move_gradients_into(self: Any, values: Any, selected: Any) -> None:
    _MOVE_INTO(self, values, [])  # no weights


def _ways(every: int) -> dict[str, Callable[[], pl.Callback]]:
    specified: Any = {"collect_metric": True}

    def collector(**options: Any) -> Callable[[], pl.Callback]:
        return lambda: SummaryCollector(None, every, specified, False, **options)

    return {
        "the loss alone": collector(),
        _GRADIENTS: collector(collect_parameter_statistics=True),
        "statistics": collector(collect_parameter_statistics=True),
        "statistics and updates": collector(
            collect_parameter_statistics=True, collect_parameter_updates=True
        ),
        "grad_norm by hand": lambda: _ByHand(_norms, every),
        "a scalar each by hand": lambda: _ByHand(_scalar_of_each, every),
    }


def _shares(
    net: type[pl.LightningModule], data: torch.Tensor, batch: int, way: str, every: int
) -> tuple[float, float]:
    """Share of the callback's hooks in a training, pictures not counted, and the seconds of all
    pictures.
    """
    callback = _ways(every)[way]()
    meter = _Meter(callback)
    statistics_class: Any = parameter_statistics.ParameterStatistics
    statistics_class.move_into = _move_gradients_into if way == _GRADIENTS else _MOVE_INTO
    parameter_statistics.heat_map = meter.draw
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as directory:
        trainer = pl.Trainer(
            accelerator="cpu",
            devices=1,
            max_epochs=1,
            logger=MindInsightLogger(directory),
            callbacks=[callback],
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
        )
        start = time.thread_time()
        trainer.fit(net(), DataLoader(TensorDataset(data[: batch * _STEPS[every]]), batch))
        whole = time.thread_time() - start
    hooks = meter.seconds - meter.pictures
    return hooks / (whole - meter.seconds), meter.pictures


def _norms_in_one_pass(module: nn.Module) -> dict[str, Any]:
    parts = [each for part in module.parameters() for each in (part, part.grad)]
    return {"norm": float(torch.stack(torch._foreach_norm(parts)).sum())}


def _in_turns(batch: int, steps: int) -> dict[str, float]:
    """CPU seconds of trainings that take turns: as a ratio to the first."""
    specified: Any = {"collect_metric": True}

    def setup(*callbacks: pl.Callback) -> Callable[[str], tuple[Any, list[Any]]]:
        return lambda directory: (MindInsightLogger(directory), list(callbacks))

    off, on = ({"collect_parameter_statistics": is_on or None} for is_on in (False, True))
    text = DataLoader(TensorDataset(torch.randint(256, (steps * batch, 128))), batch)
    seconds = overhead.trained_in_turns(
        {
            "off": setup(SummaryCollector(None, 10, specified, False, **off)),
            "on": setup(SummaryCollector(None, 10, specified, False, **on)),
            "floor": setup(
                SummaryCollector(None, 10, specified, False, **off), _ByHand(_norms_in_one_pass, 10)
            ),
        },
        lambda **options: overhead.trainer(max_epochs=1, **options).fit(Gpt(), text),
        10,
    )
    return {way: taken / seconds["off"] for way, taken in seconds.items()}


def _show_turns(rounds: int) -> dict[str, dict[str, list[float]]]:
    print(
        "| GPT, tokens a step | statistics on / off, collect_freq=10 | each element read "
        "once / off |\n|---|---:|---:|"
    )
    rows = {}
    for batch, steps in ((2, 200), (8, 100), (32, 40)):
        found = [_in_turns(batch, steps) for _ in range(rounds)]
        rows[f"{128 * batch} tokens"] = row = {
            way: [each[way] for each in found] for way in ("on", "floor")
        }
        medians = (statistics.median(ratios) - 1 for ratios in row.values())
        print(
            f"| {128 * batch} |", " | ".join(f"{share:+.2%}" for share in medians), "|", flush=True
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="of trainings in turns")
    parser.add_argument("--turns", action="store_true", help="on and off in turns alone")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in (
        "lightning.pytorch",
        "lightning.pytorch.utilities.rank_zero",
        "mindsummary_lightning",
    ):
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.disable(logging.INFO)
    paired.save("statistics_in_turns", "Statistics on to off", _show_turns(arguments.rounds))
    if arguments.turns:
        return
    print("| net | way | collect_freq=10 | 1 | pictures of a run, s |\n|---|---|---:|---:|---:|")
    rows: dict[str, dict[str, list[float]]] = {}
    for name, net, data, batch in (
        ("GPT", Gpt, torch.randint(256, (_STEPS[10] * 2, 128)), 2),
        ("1,000 layers", Chain, torch.randn(_STEPS[10] * 4, 8), 4),
    ):
        _shares(net, data[:8], batch, "statistics and updates", 1)  # imports and caches
        for way in _ways(1):
            tenth, each = (_shares(net, data, batch, way, every) for every in (10, 1))
            print(
                f"| {name} | {way} | {tenth[0]:.2%} | {each[0]:.2%} | {each[1]:.2f} |", flush=True
            )
            rows[f"{name}, {way}"] = {"collect_freq=10": [tenth[0]], "collect_freq=1": [each[0]]}
    print(paired.machine())
    paired.save("every_parameter", "Share of a training in the hooks that take statistics", rows)


if __name__ == "__main__":
    main()
