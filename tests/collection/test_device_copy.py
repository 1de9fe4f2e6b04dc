"""``DeviceCopy``: when its parts may be read, asked of a device that writes down what it
is told.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mindsummary_lightning.collection.device_copy import DeviceCopy


class FarTensor(torch.Tensor):
    """A tensor that says it is on another device than the current one."""

    device = torch.device("cuda", 1)  # type: ignore[assignment]


class Device:
    """Stands for ``torch.cuda``; its one event is done when ``is_done`` says so."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.is_done = False

    def current_stream(self, device: torch.device | None = None) -> str:
        return f"stream of {device}"

    def Event(self) -> Device:
        return self

    def record(self, *streams: str) -> None:
        self.calls.append(("recorded on", *streams))

    def query(self) -> bool:
        return self.is_done

    def synchronize(self) -> None:
        self.calls.append("waited")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    monkeypatch.setattr(torch, "get_device_module", lambda name: device)
    return device


def far(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers).as_subclass(FarTensor)


def test_a_copy_is_done_when_its_event_is_which_its_own_devices_stream_reaches(
    device: Device,
) -> None:
    copy = DeviceCopy([far(1), far(2, 3)])

    assert device.calls == [("recorded on", "stream of cuda:1")]
    assert not copy.is_done()
    device.is_done = True
    assert copy.is_done()


def test_parts_are_read_after_the_event_was_waited_for_once(device: Device) -> None:
    copy = DeviceCopy([far(1), far(2, 3)])

    assert [part.tolist() for part in copy.wait()] == [[1], [2, 3]]
    assert [part.tolist() for part in copy.wait()] == [[1], [2, 3]]
    assert device.calls[1:] == ["waited"]


def test_a_device_with_one_stream_records_on_that(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Device, "current_stream")  # as torch.mps
    DeviceCopy([far(1)])

    assert device.calls == [("recorded on",)]


def test_what_cannot_be_copied_together_is_copied_one_by_one_and_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(device: Any) -> Any:
        raise RuntimeError("this device has no events")

    monkeypatch.setattr(torch, "get_device_module", refused)
    parts = [
        far(1, -2).to(torch.int8),
        far(3, 4, 5).double(),
        far(6, 7, 8, 9, 10, 11).reshape(2, 3),
        far(0, 1).bool(),
        far(12).half(),
    ]
    copy = DeviceCopy(parts)

    assert copy.is_done()
    for _ in range(2):
        arrived = copy.wait()
        assert [part.tolist() for part in arrived] == [
            [1, -2],
            [3, 4, 5],
            [[6, 7, 8], [9, 10, 11]],
            [False, True],
            [12],
        ]
        assert [part.dtype for part in arrived] == [part.dtype for part in parts]
    assert DeviceCopy([far(7)]).wait()[0].tolist() == [7]


def test_parts_on_the_cpu_are_there_at_once_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("DEBUG", "mindsummary_lightning"):
        copy = DeviceCopy([torch.tensor([1, 2]), torch.tensor([[0.5], [1.5]])])

    assert copy.is_done()
    assert [part.tolist() for part in copy.wait()] == [[1, 2], [[0.5], [1.5]]]
    assert caplog.messages == []
