"""These tests run in their own process, ``nox -s accelerator``: the stand-in device is there until
a process ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

collect_ignore_glob = [] if "ACCELERATOR_BUILD" in os.environ else ["test_*.py"]


_LINES: list[str] = []


@pytest.fixture
def report() -> Callable[[str], None]:
    """Takes a line about what the device was asked for, to be printed at the end of the session."""
    return _LINES.append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _LINES:
        terminalreporter.section("what the stand-in accelerator was asked for")
        for line in _LINES:
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def fresh_device() -> Iterator[None]:
    from mindsummary_lightning.collection import device_copy, device_histograms
    from mindsummary_lightning.warn_once import WarnOnce
    from tests.accelerator import npu

    npu.reset()
    device_histograms.wide_dtype.cache_clear()
    device_copy._WARN_ONCE = WarnOnce(device_copy._LOG)
    yield
    npu.reset()
