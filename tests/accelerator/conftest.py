"""These tests run in their own process, ``nox -s accelerator``: the stand-in device is there until a process ends."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

collect_ignore_glob = [] if "ACCELERATOR_BUILD" in os.environ else ["test_*.py"]


@pytest.fixture(autouse=True)
def fresh_device() -> Iterator[None]:
    from mindsummary_lightning.collection import device_copy, device_histograms
    from mindsummary_lightning.warn_once import WarnOnce
    from tests.accelerator import npu

    npu.reset()
    device_histograms._wide.cache_clear()
    device_copy._WARN_ONCE = WarnOnce(device_copy._LOG)
    yield
    npu.reset()
