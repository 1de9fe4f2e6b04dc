"""The stand-in device itself: it computes what the CPU does and counts what it is asked."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.accelerator import npu


def test_it_is_the_accelerator_of_this_process() -> None:
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    assert torch.accelerator.device_count() == 2
    assert str(torch.ones(2, device="npu").device) == "npu:0"


def test_a_network_with_convolutions_learns_as_on_the_cpu() -> None:
    def weights(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.5),
            nn.Flatten(),
            nn.Linear(36, 3),
        ).to(device)  # fmt: skip
        optimizer = torch.optim.Adam(net.parameters())
        images, classes = torch.randn(5, 1, 8, 8), torch.tensor([0, 1, 2, 0, 1])
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images.to(device)), classes.to(device)).backward()
            optimizer.step()
        return [parameter.detach().cpu() for parameter in net.parameters()]

    for found, expected in zip(weights("npu"), weights("cpu"), strict=True):
        torch.testing.assert_close(found, expected)


def test_copies_reads_and_waits_are_counted() -> None:
    x = torch.ones(4, device="npu")
    npu.reset()
    (x * 2 + 1).sum()
    assert npu.counts() == {}
    x.cpu()
    assert npu.counts() == {"blocking_copies_to_host": 1, "bytes_to_host": 16}
    npu.reset()
    x.to("cpu", non_blocking=True)
    assert npu.counts() == {"copies_to_host": 1, "bytes_to_host": 16}
    npu.reset()
    assert x.sum().item() == 4
    assert torch.equal(x, x)
    assert npu.counts() == {"reads": 2}
    npu.reset()
    torch.ones(3).to("npu")
    assert npu.counts() == {"blocking_copies_to_device": 1, "bytes_to_device": 12}
    npu.reset()
    event = npu.Event()
    event.record()
    event.query()
    event.synchronize()
    npu.synchronize()
    assert npu.counts() == {
        "events_recorded": 1,
        "events_queried": 1,
        "events_waited": 1,
        "devices_synchronized": 1,
    }


def test_a_delayed_copy_is_poison_until_its_stream_has_finished() -> None:
    x = torch.ones(2, device="npu:1")
    event = npu.Event()
    with npu.delayed():
        copied = x.to("cpu", non_blocking=True)
        x += 1  # behind the copy
        event.record(npu.current_stream("npu:1"))
        assert copied.view(torch.uint8).tolist() == [0xAB] * 8
        npu.finish(0, -1)
        assert not event.query()
        npu.finish(1, -1)
        assert event.query()
        assert copied.tolist() == [1, 1]


def test_abilities_can_be_switched_off() -> None:
    x = torch.ones(1000, device="npu")
    npu.limit_allocations(2000)
    with pytest.raises(torch.OutOfMemoryError):
        x + 1
    npu.lack("pinned")
    with pytest.raises(RuntimeError, match="pinned"):
        x.to("cpu", non_blocking=True)
    npu.lack("events")
    with pytest.raises(RuntimeError, match="events"):
        npu.Event().record()
    for dtype in ("float64", "bfloat16"):
        npu.lack(dtype)
        with pytest.raises(TypeError, match=dtype):
            torch.ones(2, dtype=getattr(torch, dtype), device="npu")
