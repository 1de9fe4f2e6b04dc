"""The values of one step on the stand-in: what they cost the device, and that they are
the CPU's.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from mindsummary_lightning.collection.step_values import StepValues
from tests.accelerator import npu

LARGE = 100_000
DTYPES = [
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32,
    torch.int16, torch.int8,
    torch.uint8, torch.bool,
]  # fmt: skip
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "every other": lambda x: x[::2, 1::3],
    "expanded": lambda x: x[:1].expand(7, -1),
    "of a large tensor": lambda x: x[3],
    "empty": lambda x: x[:0],
}


def elements(dtype: torch.dtype, rows: int = 40, columns: int = 60) -> torch.Tensor:
    x = 100 * torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))
    return (
        x > 0 if dtype is torch.bool else x.abs().to(dtype) if dtype is torch.uint8 else x.to(dtype)
    )


def add_all(values: StepValues, device: str) -> None:
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(4, 3, 50, 50, generator=generator).to(device)
    values.add_scalar("loss", torch.tensor(0.25).to(device))
    values.add_histogram("weight", torch.randn(LARGE, generator=generator).to(device))
    values.add_histogram("half", torch.randn(LARGE, generator=generator).half().to(device))
    values.add_histogram("small", torch.randn(10, generator=generator).to(device))
    values.add_image("images", images)
    values.add_tensor("flags", torch.tensor([True, False, True]).to(device))
    values.add_tensor("large", torch.randn(LARGE, generator=generator).to(device))


def assert_equal(found: Any, expected: Any) -> None:
    assert [tag for tag, _ in found] == [tag for tag, _ in expected]
    for (tag, value), (_, other) in zip(found, expected, strict=True):
        np.testing.assert_equal(fields(value), fields(other), tag)


def fields(value: Any) -> Any:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value


def on_the_cpu() -> Any:
    values = StepValues()
    add_all(values, "cpu")
    return values.drain()


def test_a_step_costs_one_copy_that_nobody_waits_for_in_a_hook() -> None:
    weight, images = torch.randn(LARGE).to("npu"), torch.rand(4, 3, 50, 50).to("npu")
    npu.reset()
    values = StepValues()
    values.add_histogram("weight", weight)
    values.add_image("images", images)
    values.add_tensor("tensor", weight)
    values.add_scalar("loss", weight[0])
    assert npu.counts() == {}
    values.send()
    counts = npu.counts()
    assert counts.pop("bytes_to_host") > weight.nbytes + images.nbytes
    assert counts == {"copies_to_host": 1, "events_recorded": 1}
    npu.reset()
    assert values.is_ready()
    assert len(values.drain()) == 4
    assert npu.counts() == {"events_queried": 1, "events_waited": 1}


def test_values_of_a_device_are_those_of_the_cpu() -> None:
    values = StepValues()
    add_all(values, "npu")
    with npu.delayed():
        assert_equal(values.drain(), on_the_cpu())
    assert values.problems == []


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_dtype_and_layout_is_recorded_as_on_the_cpu(dtype: torch.dtype, layout: str) -> None:
    found = []
    for device in ("npu:1", "cpu"):
        values = StepValues()
        x = LAYOUTS[layout](elements(dtype).to(device))
        values.add_histogram("histogram", x)
        values.add_tensor("tensor", x)
        values.add_scalar("scalar", elements(dtype)[0, 0].to(device))
        with npu.delayed():
            found.append((values.drain(), [(tag, str(error)) for tag, error in values.problems]))
    assert_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_nothing_is_read_before_its_copy_is_done() -> None:
    values = StepValues()
    tensor = torch.arange(5.0).to("npu")
    with npu.delayed():
        values.add_tensor("tensor", tensor)
        tensor.zero_()  # the next step changes it
        values.send()
        tensor.fill_(7)
        assert not values.is_ready()
        ((_, found),) = values.drain()  # waits for the event
    assert np.asarray(found.data if hasattr(found, "data") else found).tolist() == [0, 1, 2, 3, 4]


def test_two_devices_cost_one_copy_each() -> None:
    values = StepValues()
    tensors = [torch.full((3,), float(n)).to(f"npu:{n}") for n in range(2)]
    npu.reset()
    for n, tensor in enumerate(tensors):
        values.add_tensor(f"on {n}", tensor)
        values.add_scalar(f"also on {n}", tensor[0])
    values.send()
    counts = npu.counts()
    assert (counts["copies_to_host"], counts["events_recorded"]) == (2, 2)
    found = dict(values.drain())
    assert (found["also on 0"], found["also on 1"]) == (0.0, 1.0)


def test_a_copy_is_waited_for_on_the_stream_of_its_own_device() -> None:
    values = StepValues()
    values.add_scalar("loss", torch.tensor(3.0).to("npu:1"))
    assert torch.accelerator.current_device_index() == 0
    with npu.delayed():
        values.send()
        npu.finish(0, -1)
        assert not values.is_ready()
        npu.finish(1, -1)
        assert values.is_ready()
        assert values.drain() == (("loss", 3.0),)


def test_a_copy_is_waited_for_on_the_stream_that_is_current() -> None:
    values = StepValues()
    stream = torch.Stream(device="npu:1")
    loss = torch.tensor(3.0).to("npu:1")
    with npu.delayed(), stream:
        values.add_scalar("loss", loss)
        values.send()
        npu.finish(1, 0)
        assert not values.is_ready()
        npu.finish(1, stream.stream_id)
        assert values.is_ready()
        assert values.drain() == (("loss", 3.0),)


def test_deterministic_mode_gives_the_same_histograms() -> None:
    values = StepValues()
    torch.use_deterministic_algorithms(True)
    try:
        add_all(values, "npu")
        assert_equal(values.drain(), on_the_cpu())
    finally:
        torch.use_deterministic_algorithms(False)
    assert values.problems == []


@pytest.mark.parametrize(
    "missing", [["pinned"], ["events"], ["float64"], ["bfloat16"], ["pinned", "events"]]
)
def test_a_missing_ability_loses_nothing(missing: list[str]) -> None:
    for ability in missing:
        npu.lack(ability)
    values = StepValues()
    add_all(values, "npu")
    with npu.delayed():
        found = values.drain()
    assert values.problems == []
    expected = on_the_cpu()
    if "float64" in missing:  # sums are then those of float32
        for pairs in (found, expected):
            assert [tag for tag, _ in pairs] == [
                "loss",
                "weight",
                "half",
                "small",
                "images",
                "flags",
                "large",
            ]
    else:
        assert_equal(found, expected)


def test_a_device_module_without_events_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(npu, "Event")
    values = StepValues()
    add_all(values, "npu")
    assert_equal(values.drain(), on_the_cpu())


def test_the_fallback_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    npu.lack("pinned")
    with caplog.at_level("INFO"):
        for _ in range(2):
            values = StepValues()
            values.add_scalar("loss", torch.tensor(1.0).to("npu"))
            assert values.drain() == (("loss", 1.0),)
    assert [
        record.levelname for record in caplog.records if "copied one by one" in record.message
    ] == ["INFO"]


def test_without_memory_for_the_common_buffer_each_part_is_copied() -> None:
    values = StepValues()
    tensors = [torch.full((5_000,), float(n)).to("npu") for n in range(3)]
    for n, tensor in enumerate(tensors):
        values.add_tensor(str(n), tensor)
    npu.limit_allocations(30_000)
    assert len(values.drain()) == 3
    assert values.problems == []
    assert npu.counts()["blocking_copies_to_host"] == 3


def test_a_reduction_without_memory_is_skipped_and_the_others_are_recorded() -> None:
    values = StepValues()
    large, small = torch.randn(LARGE).to("npu"), torch.ones(5).to("npu")
    npu.limit_allocations(50_000)
    values.add_histogram("large", large)
    values.add_tensor("small", small)
    assert [tag for tag, _ in values.drain()] == ["small"]
    ((tag, error),) = values.problems
    assert tag == "large"
    assert "out of memory" in str(error)
