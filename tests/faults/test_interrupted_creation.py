"""An interrupt between any two bytecodes while a run's file is created leaves no descriptor, no
lock, no empty file.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.recording import event_writer
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import TrainInfo

_DESCRIPTORS = "/proc/self/fd"
pytestmark = [
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.path.isdir(_DESCRIPTORS), reason=f"{_DESCRIPTORS} tells what is open"
    ),
]

_NAMES = (
    "append",
    "replace",
    "regular",
    "event_writer",
    "event_files",
    "lineage_file",
    "run_recorder",
)
_MODULES = tuple(f"{name}.py" for name in _NAMES)


class _Interrupt:
    """Raises KeyboardInterrupt at the n-th place of the modules that create files."""

    def __init__(self, place: int) -> None:
        self.left = place

    def __call__(self, frame: FrameType, event: str, argument: Any) -> _Interrupt | None:
        if not frame.f_code.co_filename.endswith(_MODULES):
            return None
        frame.f_trace_opcodes = True
        self.left -= 1
        if not self.left:
            sys.settrace(None)
            raise KeyboardInterrupt
        return self


def _scalar(record: SummaryRecord) -> None:
    record.add_value("scalar", "loss", 1.0)
    record.record(1)


def _lineage(record: SummaryRecord) -> None:
    recorder_of(record).write_lineage(TrainInfo(epoch=1))


def _is_interrupted(run: Path, write: Callable[[SummaryRecord], None], place: int) -> bool:
    record = SummaryRecord(run)
    before = sys.gettrace()
    sys.settrace(_Interrupt(place))
    try:
        write(record)
    except KeyboardInterrupt:
        sys.settrace(before)
        write(record)  # as in a notebook, whose user goes on
        return True
    finally:
        sys.settrace(before)
        record.close()
    return False


def _open_files(root: Path) -> list[str]:
    """What is open below a directory, but directories: that of one that is synced has no lock and
    no file object.
    """
    paths = []
    for descriptor in os.listdir(_DESCRIPTORS):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            path = os.readlink(f"{_DESCRIPTORS}/{descriptor}")
            paths += [path] * (path.startswith(f"{root}/") and not os.path.isdir(path))
    return paths


@pytest.mark.parametrize("write", [_scalar, _lineage])
# one in a generator that ends
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_place_of_a_creation_leaves_nothing(
    write: Callable[[SummaryRecord], None], tmp_path: Path, times: Callable[[int, int], int],
    figure: Callable[[int, str], None], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    # A trace function also interrupts where no signal can, between a block that holds the lock and
    # its release.
    monkeypatch.setattr(event_writer, "_WRITERS_LOCK", threading.RLock())
    place, step, places = 1, times(29, 1), 0
    while _is_interrupted(tmp_path / str(place), write, place):
        gc.collect(0)
        assert not _open_files(tmp_path), place
        assert all(path.stat().st_size for path in tmp_path.glob("*/*")), place
        assert not [*tmp_path.glob("*/*.tmp")], place
        place, places = place + step, places + 1

    figure(
        47,
        (
            f"KeyboardInterrupt at {places} places of the creation of a {write.__name__[1:]}'s "
            "file: nothing is left"
        ),
    )
