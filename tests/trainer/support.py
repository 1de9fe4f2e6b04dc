"""Small trainings for the tests of the logger and the collector, and what they left on disk."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import lightning as L
import pytest
import torch
import torch.distributed.fsdp
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import SummaryReader
from tests.warm_processes import as_script, run_two_ranks, run_warm

# Lightning's second package need not be installed.
NAMESPACES = (
    ("lightning.pytorch", "pytorch_lightning")
    if find_spec("pytorch_lightning")
    else ("lightning.pytorch",)
)
_LAST_NAMESPACE: Any = importlib.import_module(NAMESPACES[-1])
SHARDS_ON_CPU = pytest.mark.skipif(
    not hasattr(torch.distributed.fsdp, "fully_shard"), reason="this torch shards on CUDA alone"
)

torch.set_num_threads(1)


def errors_of(caplog: pytest.LogCaptureFixture, directory: Path) -> list[str]:
    """Messages of errors that name a directory, or a file in it.

    Records that another test left may be closed late, and say what they have lost.
    """
    messages = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    return [message for message in messages if str(directory) in message]


class Net(L.LightningModule):
    """Two linear layers that learn something.

    ``probe`` is called with the module and the batch in each forward.
    """

    def __init__(
        self, learning_rate: float = 0.1, probe: Callable[[Any, Tensor], object] | None = None
    ) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.probe = probe
        self.first = nn.Linear(4, 3)
        self.second = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        if self.probe is not None:
            self.probe(self, x)
        scores: Tensor = self.second(self.first(x).relu())
        return scores

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int, dataloader_idx: int = 0) -> None:
        self.log("val/loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

    def test_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("test/loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=self.learning_rate)


class Saving(Net):
    """A net with a hyper-parameter."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.save_hyperparameters()


class OtherNet(_LAST_NAMESPACE.LightningModule):  # type: ignore[misc]
    """The same for the other namespace."""

    def __init__(self) -> None:
        super().__init__()
        self.learning_rate, self.probe = 0.1, None
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 2)

    forward = Net.forward
    training_step, validation_step, test_step = (
        Net.training_step,
        Net.validation_step,
        Net.test_step,
    )
    configure_optimizers = Net.configure_optimizers


class Gan(L.LightningModule):
    """Two networks with an optimizer each, both stepping in every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Linear(4, 4)
        self.judge = nn.Linear(4, 1)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> dict[str, Tensor]:
        optimizers: Any = self.optimizers()
        for optimizer, sign in zip(optimizers, (1, -1), strict=True):
            loss = sign * self.judge(self.generator(batch[0])).mean()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        self.log("train/loss", loss)
        return {"loss": loss.detach()}

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(part.parameters(), lr=0.1) for part in (self.generator, self.judge)]


def data(batches: int = 6, batch_size: int = 4) -> TensorDataset:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(batches * batch_size, 4, generator=generator)
    return TensorDataset(x, (x.sum(1) > 0).long())


def loader(batches: int = 6, batch_size: int = 4) -> DataLoader[Any]:
    # batch_size by name: with Python 3.14, Lightning 2.6 cannot make a loader of a hook again
    # whose batch size is positional
    return DataLoader(data(batches, batch_size), batch_size=batch_size)


def trainer(namespace: str = "lightning.pytorch", **options: Any) -> Any:
    """A quiet Trainer on one CPU, logging each step."""
    settings: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 1,
        "log_every_n_steps": 1,
        "num_sanity_val_steps": 0,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
    }
    return importlib.import_module(namespace).Trainer(**{**settings, **options})


def module_of(namespace: str) -> Any:
    """A Net that the Trainer of a namespace takes: a LightningModule of its own."""
    return Net() if namespace == "lightning.pytorch" else OtherNet()


def points(run: str | Path, tag: str) -> list[tuple[int, float]]:
    """Steps and values of a scalar, as recorded."""
    series = SummaryReader(run).scalars(tag)
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def judge_points(directory: str | Path, tag: str) -> list[tuple[int, float]]:
    """Steps and values of a scalar in TensorBoard's files; none if the tag is not there."""
    events = EventAccumulator(str(directory), {"scalars": 0})
    events.Reload()
    known = events.Tags()["scalars"]
    if tag not in known:
        return []
    # TensorBoard reads file .100 of a second before its file .99.
    recorded = sorted(events.Scalars(tag), key=lambda event: event.wall_time)
    return [(event.step, event.value) for event in recorded]


def steps(run: str | Path, tag: str, kind: str = "scalar") -> list[int]:
    """Steps of a tag, as recorded."""
    reader = SummaryReader(run)
    if kind == "scalar":
        return list(map(int, reader.scalars(tag).steps))
    read: Any = {"image": reader.images, "histogram": reader.histograms, "tensor": reader.tensors}[
        kind
    ]
    return [step for step, _, _ in read(tag)]


def files(directory: str | Path) -> list[str]:
    """Every file below a directory, as sorted relative paths; empty if there is no directory."""
    base = Path(directory)
    return sorted(str(path.relative_to(base)) for path in base.rglob("*") if path.is_file())


def kinds(directory: str | Path) -> list[str]:
    """What the event files of a run directory are: ``MS`` or ``lineage``, sorted."""
    return sorted(name.rpartition("_")[2] for name in os.listdir(directory) if "summary." in name)


def run_script(code: str, *arguments: object) -> CompletedProcess[str]:
    """Run a script in a process of its own.

    The first argument is the directory in which its file is left.
    """
    return run_warm(as_script, _file(code, arguments), *arguments)


def run_script_on_two_ranks(code: str, *arguments: object) -> CompletedProcess[str]:
    """The same in both processes of a training."""
    return run_two_ranks(as_script, _file(code, arguments), *arguments)


def _file(code: str, arguments: Sequence[object]) -> Path:
    script = Path(str(arguments[0])) / "script.py"
    script.write_text(code, encoding="utf-8")
    return script
