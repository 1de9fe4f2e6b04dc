"""Checks that recording on a device gives the same results as on a CPU.

A small training and its landscape give a report that you can paste into an issue.
"""

from __future__ import annotations

import logging
import platform
import tempfile
import warnings
from importlib import metadata
from typing import Any, NamedTuple
from unittest import mock

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.accelerators import Accelerator, AcceleratorRegistry
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode  # torch 2.5 to 2.15
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning.collection.device_copy import DeviceCopy
from mindsummary_lightning.landscape.summary_landscape import SummaryLandscape
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.trainer.collector import SummaryCollector

# that the host must know to go on
_ANSWERS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_WAIT = DeviceCopy.wait
_QUIET: Any = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class Proof(NamedTuple):
    """The result of one check: a found value, compared with the expected value."""

    name: str
    state: str
    is_met: bool = True


def prove_device(device: str) -> list[Proof]:
    """Train on a device with and without a collector, and compare the results.

    Counts, weights, values and a landscape are compared.

    Raises:
        ValueError: PyTorch finds no such device on this machine.
    """
    accelerator = _accelerator(device)
    levels = {
        logger: logger.level
        for logger in map(logging.getLogger, ("lightning.pytorch", "mindsummary_lightning"))
    }
    torch_state = torch.get_rng_state()
    try:
        for logger in levels:
            logger.setLevel(logging.ERROR)
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _proofs(accelerator, folder)
    finally:
        torch.set_rng_state(torch_state)
        for logger, level in levels.items():
            logger.setLevel(level)


def _proofs(accelerator: str | Accelerator, folder: str) -> list[Proof]:
    _fit(accelerator)  # what is made once for a device
    (plain, before), (recorded, after) = _fit(accelerator), _fit(accelerator, f"{folder}/device")
    _fit("cpu", f"{folder}/cpu")
    _fit(accelerator, f"{folder}/checkpoints", {"intervals": [[5, 10, 20]]})
    found = SummaryReader(f"{folder}/device")
    expected = SummaryReader(f"{folder}/cpu")
    made = [_surfaces(f"{folder}/checkpoints", each) for each in (accelerator, "cpu")]
    apart = max(float(np.abs(one / other - 1).max()) for one, other in zip(*made, strict=True))
    steps = found.scalars("loss/auto").steps.tolist()
    is_equal = all(torch.equal(plain[name], recorded[name]) for name in plain)
    most, most_waits = (0, 0) if before.device.type == "cpu" else (len(steps), 1)
    copies = after.copies - before.copies
    waits = after.waits - before.waits
    events = after.events - before.events
    versions = (
        f"torch {torch.__version__}, lightning {metadata.version('lightning')}, Python "
        f"{platform.python_version()}"
    )
    return [
        Proof("device", f"{before.device}, {versions}, {platform.platform()}"),
        Proof(
            "weights",
            f"{'equal' if is_equal else 'DIFFERENT'} with and without the collector (equal)",
            is_equal,
        ),
        Proof(
            "values",
            f"{_count(found)} (the CPU's: {_count(expected)})",
            found.tags() == expected.tags(),
        ),
        Proof(
            "copies",
            f"{copies} more to the host ({most}: one in each of the steps {steps})",
            copies == most,
        ),
        Proof(
            "waits",
            f"{waits} more (at most {most_waits}: the loss, when the training ends)",
            waits <= most_waits,
        ),
        Proof("events", f"{events} waited for, a step later (at most {most})", events <= most),
        Proof("landscape", f"differs by {apart:.1e} from the CPU's (below 1e-4)", apart < 1e-4),
    ]


def _count(run: SummaryReader) -> str:
    return ", ".join(f"{len(tags)} {kind}" for kind, tags in run.tags().items())


class _Asked(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the copies from a device to the host, and the waits for the device.

    Waits come from operations and from events.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device: torch.device = device
        self.copies: int = 0
        self.waits: int = 0
        self.events: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        asked = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        if self.device.type != "cpu" and any(one.device.type == self.device.type for one in asked):
            leaves = any(
                isinstance(one, Tensor) and one.device.type == "cpu" for one in tree_leaves(answer)
            )
            is_queued = (kwargs or {}).get("non_blocking", len(args) > 2 and args[2] is True)
            self.copies += leaves
            self.waits += bool(_ANSWERS & {*func.tags}) or (leaves and not is_queued)
        return answer

    def wait(self, copy: DeviceCopy) -> list[Tensor]:
        """Count a wait for the copy of a step's values."""
        self.events += copy._event is not None and copy._arrived is None
        return _WAIT(copy)


class _Net(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


def _data() -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(640, 64, generator=generator)
    return DataLoader(TensorDataset(inputs, torch.randint(10, (640,), generator=generator)), 32)


def _fit(
    accelerator: str | Accelerator, run: str = "", landscape: Any = None
) -> tuple[dict[str, Tensor], _Asked]:
    """Train 20 steps; return the weights on the CPU and the device's counts."""
    torch.manual_seed(0)
    kept: Any = {"collect_landscape": landscape}
    callbacks: Any = (
        [SummaryCollector(run, collect_freq=10, collect_specified_data=kept)] if run else []
    )
    strategy: Any = "auto"
    if isinstance(accelerator, Accelerator):  # Lightning would use the CPU
        strategy = SingleDeviceStrategy(accelerator.get_parallel_devices(1)[0])
    trainer = pl.Trainer(
        accelerator=accelerator,
        strategy=strategy,
        devices=1,
        max_epochs=1,
        callbacks=callbacks,
        **_QUIET,
    )
    device, net = trainer.strategy.root_device, _Net()
    asked = _Asked(device)

    def counted_wait(copy: DeviceCopy) -> list[Tensor]:
        return asked.wait(copy)

    with mock.patch.object(DeviceCopy, "wait", counted_wait), asked:
        trainer.fit(net, _data())
    return {name: tensor.cpu() for name, tensor in net.state_dict().items()}, asked


def _surfaces(run: str, accelerator: Any) -> list[Any]:
    settings = {"landscape_size": 5}
    made = SummaryLandscape(run).generate(
        _Net(),
        _data(),
        accelerator=accelerator,
        devices=1,
        output=f"{run}/made",
        collect_landscape=settings,
    )
    return [made[tag].surface.z for tag in sorted(made)]


def _accelerator(name: str) -> str | Accelerator:
    # Lightning's names, whatever is there
    known, device = AcceleratorRegistry.available_accelerators(), None
    try:
        if name in known:
            is_there = AcceleratorRegistry.get(name).is_available()
        else:
            device = torch.device(name, 0)
            is_there = torch.get_device_module(device).is_available()
    except (RuntimeError, AttributeError, ImportError):  # a TPU's needs a package of its own
        is_there = False
    if not is_there:
        raise ValueError(
            f"PyTorch has no device {name!r} here. For a vendor's device, install the vendor's "
            "package"
        )
    return name if device is None else _accelerator_of(device)


def _accelerator_of(device: torch.device) -> Accelerator:
    """Return a Lightning accelerator for a device that Lightning does not support."""

    class Device(Accelerator):
        def setup_device(self, device: torch.device) -> None:
            torch.get_device_module(device).set_device(device)

        def teardown(self) -> None: ...

        @staticmethod
        def parse_devices(devices: Any) -> Any:
            return devices

        @staticmethod
        def get_parallel_devices(devices: Any) -> list[torch.device]:
            return [device]

        @staticmethod
        def auto_device_count() -> int:
            return 1

        @staticmethod
        def is_available() -> bool:
            return True

        @staticmethod
        def name() -> str:
            return device.type

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            return {}

    return Device()
