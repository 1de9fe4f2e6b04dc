"""``torch.npu``: the Python side of the stand-in accelerator, with the names that a device module
of PyTorch has.

Importing it compiles ``device.cpp`` (half a minute, once per folder) into the folder that
``ACCELERATOR_BUILD`` names and registers the device for the whole process, which is why these tests
have a session of their own.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.utils import cpp_extension

_FOLDER = Path(os.environ["ACCELERATOR_BUILD"]) / f"torch-{torch.__version__}"


def _load() -> Any:
    _FOLDER.mkdir(parents=True, exist_ok=True)
    source = str(Path(__file__).with_name("device.cpp"))
    return cpp_extension.load(
        "npu_stand_in", [source], extra_cflags=["-O0"], build_directory=str(_FOLDER)
    )


torch.utils.rename_privateuse1_backend("npu")
_C = _load()
torch._register_device_module("npu", sys.modules[__name__])
torch.utils.generate_methods_for_privateuse1_backend()


def _collectives(store: Any, rank: int, size: int, timeout: Any) -> Any:
    return _C.collectives(distributed.ProcessGroupGloo(store, rank, size, timeout))


distributed.Backend.register_backend("npu_gloo", _collectives, devices=["npu"])

# What a device module of PyTorch has.


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def device_count() -> int:
    return int(_C.device_count())


def current_device() -> int:
    return torch.accelerator.current_device_index()


def set_device(device: Any) -> None:
    torch.accelerator.set_device_index(
        torch.device(device).index if isinstance(device, str) else device
    )


def current_stream(device: Any = None) -> torch.Stream:
    return torch.accelerator.current_stream(device)


def synchronize(device: Any = None) -> None:
    torch.accelerator.synchronize(device)


def Event() -> torch.Event:
    return torch.Event(device="npu")


def manual_seed(seed: int) -> None:
    torch.default_generator.manual_seed(seed)  # its operations run on the CPU


def manual_seed_all(seed: int) -> None:
    manual_seed(seed)


def get_rng_state(device: Any = None) -> torch.Tensor:
    return torch.default_generator.get_state()


def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
    torch.default_generator.set_state(state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def _is_in_bad_fork() -> bool:
    return False


# What only the stand-in has.

reset = _C.reset
"""Forget all counts and switches, run what is queued."""

lack = _C.lack
"""Switch an ability off: "pinned", "events", "float64" or "bfloat16"."""

limit_allocations = _C.limit_allocations
"""Let allocations of more bytes than this fail."""

finish = _C.finish
"""Run what is queued on a device and stream (-1: all streams)."""


def counts() -> dict[str, int]:
    """What was asked of the device since the last :func:`reset`, kinds that did not occur not among
    them.
    """
    return dict(_C.counts())


@contextlib.contextmanager
def delayed() -> Iterator[None]:
    """Copies and events finish only at :func:`finish` or when they are waited for; until then
    copies are poisoned.
    """
    _C.delay(True)
    try:
        yield
    finally:
        _C.delay(False)
        for device in range(device_count()):
            finish(device, -1)
