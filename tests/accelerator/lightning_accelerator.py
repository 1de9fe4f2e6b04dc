"""The stand-in as Lightning sees it: an accelerator object, and DDP without the CUDA stream of
Lightning's own.
"""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch.accelerators import Accelerator
from lightning.pytorch.strategies import DDPStrategy

from tests.accelerator import npu


class StandInAccelerator(Accelerator):
    """What a vendor's package for Lightning defines."""

    def setup_device(self, device: torch.device) -> None:
        npu.set_device(device.index)

    def teardown(self) -> None:
        pass

    @staticmethod
    def parse_devices(devices: Any) -> list[int]:
        if devices in (-1, "-1", "auto"):
            return list(range(npu.device_count()))
        return list(range(int(devices))) if isinstance(devices, (int, str)) else list(devices)

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        return [torch.device("npu", index) for index in devices]

    @staticmethod
    def auto_device_count() -> int:
        return npu.device_count()

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def name() -> str:
        return "npu"

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        return {}


class StandInDDPStrategy(DDPStrategy):
    """DDP whose module has been moved to its device already; Lightning's own (2.6) makes a CUDA
    stream otherwise.
    """

    def determine_ddp_device_ids(self) -> None:
        return None
