"""``StepValues`` and the reduction behind it: the same values from the accelerators' path as from
the CPU's.

Without an accelerator the path is forced on CPU tensors; ranks are processes that talk through
gloo.
"""

from __future__ import annotations

import math
import os
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from mindsummary_lightning.collection import device_histograms, step_values
from mindsummary_lightning.collection.device_histograms import histogram_from_parts, histogram_parts
from mindsummary_lightning.collection.step_values import StepValues
from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.conversion.image_batches import batch_to_image
from mindsummary_lightning.conversion.numeric import to_tensor
from mindsummary_lightning.values import Histogram
from tests.collection.two_ranks import of_two_ranks, part_of
from tests.warm_processes import run_two_ranks

REDUCED = [torch.float32, torch.float16, torch.bfloat16]


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def assert_same(actual: Any, expected: Histogram) -> None:
    assert isinstance(actual, Histogram)
    for part in ("lefts", "widths", "counts"):
        np.testing.assert_array_equal(getattr(actual, part), getattr(expected, part))
    for part in ("count", "nan_count", "pos_inf_count", "neg_inf_count", "min", "max"):
        assert getattr(actual, part) == getattr(expected, part)
    assert actual.sum == (
        None if expected.sum is None else pytest.approx(expected.sum, rel=1e-9, abs=1e-6)
    )


CONTENTS: dict[str, Any] = {
    "normal": lambda t: t,
    "on the edges": lambda t: (t * 30).floor(),
    "far from zero": lambda t: t + 1000,
    "one outlier": lambda t: torch.cat([t, t.new_tensor([3e4])]),
    "constant": lambda t: t * 0 + 0.1,
    "some nan": lambda t: torch.where(t > 1, math.nan, t),
    "some infinite": lambda t: torch.where(t > 1, math.inf, torch.where(t < -1, -math.inf, t)),
    "few finite": lambda t: torch.where(torch.arange(t.numel()) < 7, t, math.nan),
    "hundreds finite": lambda t: torch.where(torch.arange(t.numel()) < 300, t, -math.inf),
    "none finite": lambda t: torch.full_like(t, math.inf),
    "tiny": lambda t: t * 1e-6,
}


@pytest.mark.parametrize("dtype", REDUCED)
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("size", [0, 9, 1025, 50_000])
def test_the_reduction_gives_the_histogram_that_the_cpu_gives(
    dtype: torch.dtype, content: str, size: int
) -> None:
    tensor = CONTENTS[content](noise(size)).to(dtype)

    assert_same(histogram_from_parts(histogram_parts(tensor)), to_histogram(tensor))


def test_an_edge_between_two_half_precision_numbers_is_rounded_once() -> None:
    # three quarters of the lowest and a quarter of the highest number are just beyond the middle
    numbers = torch.full((35,), -0.5, dtype=torch.float16)
    numbers[0], numbers[1] = -(1 + 2**-10), 2**-24

    assert_same(histogram_from_parts(histogram_parts(numbers)), to_histogram(numbers))
    between = torch.tensor(
        [1 + 2**-11 + 2**-40, -1 - 2**-11 - 2**-40, 1 + 2**-11, 0.1], dtype=float
    )
    rounded = device_histograms.rounded_to_half(between)
    assert rounded.tolist() == between.numpy().astype(np.float16).tolist()


def test_two_ranks_have_the_histogram_of_what_they_share() -> None:
    whole = the_whole()

    def reduced(rank: int, group: Any) -> list[Any]:
        few = torch.arange(7.0)
        values = StepValues()
        values.add_histogram("sharded", part_of(whole, rank, group))
        values.add_histogram("few", part_of(few, rank, group))
        values.add_histogram("too wide", part_of(few.double(), rank, group))
        values.add_tensor("a part", part_of(few, rank, group))
        assert not values.is_ready()
        parts = histogram_parts(whole[:300] if rank else whole[300:], [group])
        return [dict(values.drain()), [tag for tag, _ in values.problems], parts]

    for drained, problems, parts in of_two_ranks(reduced):
        assert_same(drained["sharded"], to_histogram(whole))
        assert_same(drained["few"], to_histogram(torch.arange(7.0)))
        assert_same(histogram_from_parts(parts), to_histogram(whole))
        assert ([*drained], problems) == (["sharded", "few"], ["too wide", "a part"])


def test_sums_are_as_exact_as_the_device_can(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = torch.zeros
    errors = {"narrow": TypeError("no float64"), "full": torch.OutOfMemoryError("no memory")}

    def of_device(size: Any, *, dtype: Any, device: str) -> torch.Tensor:
        if dtype is torch.float64 and device in errors:
            raise errors[device]
        return zeros(size, dtype=dtype)

    monkeypatch.setattr(torch, "zeros", of_device)
    device_histograms.wide_dtype.cache_clear()
    dtypes = [device_histograms.wide_dtype(device) for device in ("cpu", "narrow")]
    with pytest.raises(torch.OutOfMemoryError):
        device_histograms.wide_dtype("full")
    device_histograms.wide_dtype.cache_clear()

    assert dtypes == [torch.float64, torch.float32]


@pytest.mark.parametrize(
    ("size", "buckets"), [(1, 2), (5, 2), (6, 3), (10, 3), (11, 2), (880, 89), (881, 90)]
)
def test_the_number_of_buckets_is_mindspores_where_a_tensor_is_reduced_and_where_it_is_not(
    size: int, buckets: int
) -> None:
    tensor = torch.cat([noise(size), torch.tensor([math.nan])])

    assert to_histogram(tensor).counts.size == buckets
    assert_same(histogram_from_parts(histogram_parts(tensor)), to_histogram(tensor))


def test_edges_in_half_precision_are_rounded_once_as_numpy_does() -> None:
    halves = torch.arange(-32768, 32767).to(torch.int16).view(torch.float16).double()
    halves = halves[halves.isfinite()].sort().values
    middles = (halves[1:] + halves[:-1]) / 2
    # A float32 between a middle and what is beside it by less than its last digit is the middle
    # itself.
    numbers = torch.cat(
        [halves, middles, middles * (1 + 2**-40), middles * (1 - 2**-40), noise(5000).double()]
    )

    rounded = device_histograms.rounded_to_half(numbers)

    np.testing.assert_array_equal(rounded.numpy(), numbers.numpy().astype(np.float16))


def test_the_reduction_may_go_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_histograms, "CHUNK", 1000)
    tensor = CONTENTS["some infinite"](noise(10_500))

    assert_same(histogram_from_parts(histogram_parts(tensor)), to_histogram(tensor))


def test_the_deterministic_reduction_counts_the_same() -> None:
    tensor = CONTENTS["some infinite"](CONTENTS["on the edges"](noise(20_000)))
    tensor[::11] = math.nan
    inner = torch.linspace(-3, 3, 89)
    torch.use_deterministic_algorithms(True)
    try:
        counts = device_histograms.bucket_counts_by_sorting(tensor, inner)
    finally:
        torch.use_deterministic_algorithms(False)

    torch.testing.assert_close(
        counts, device_histograms.bucket_counts(tensor, inner), rtol=0, atol=0
    )


def everything(values: StepValues) -> dict[str, Any]:
    batch = noise(3, 1, 8, 8)
    values.add_scalar("loss", torch.tensor(0.75, requires_grad=True))
    values.add_histogram("weights", noise(60, 70).T)
    values.add_scalar("number", 2)
    values.add_histogram("bias", noise(12).double())
    values.add_image("input", batch)
    values.add_tensor("output", noise(200, 150).t()[3:5])
    values.add_tensor("mask", torch.tensor([True, False]))
    values.add_histogram("labels", torch.arange(5000) % 10)
    values.add_scalar("half", torch.tensor([[0.5]], dtype=torch.bfloat16))
    return {
        "loss": 0.75,
        "weights": to_histogram(noise(60, 70).T),
        "number": 2.0,
        "bias": to_histogram(noise(12).double()),
        "input": batch_to_image(batch),
        "output": to_tensor(noise(200, 150).t()[3:5]),
        "mask": to_tensor(torch.tensor([True, False])),
        "labels": to_histogram(torch.arange(5000) % 10),
        "half": 0.5,
    }


@pytest.fixture
def deferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors on the CPU are treated as those of an accelerator."""
    monkeypatch.setattr(step_values, "must_wait", lambda tensor: True)


@pytest.fixture(params=["at once", "deferred"])
def both_ways(request: pytest.FixtureRequest) -> None:
    if request.param == "deferred":
        request.getfixturevalue("deferred")


@pytest.mark.usefixtures("both_ways")
def test_every_kind_comes_back_in_order_and_right() -> None:
    values = StepValues()
    expected = everything(values)
    harvested = values.drain()

    assert values.problems == []
    assert [tag for tag, _ in harvested] == list(expected)
    for tag, value in harvested:
        if isinstance(value, Histogram):
            assert_same(value, expected[tag])
        else:
            assert pickle.dumps(value) == pickle.dumps(expected[tag])


@pytest.mark.usefixtures("both_ways")
def test_what_changes_after_adding_does_not_change_the_value() -> None:
    source = {
        "scalar": torch.tensor(1.0),
        "histogram": noise(5000),
        "tensor": noise(7),
        "image": noise(1, 1, 4, 4),
    }
    values = StepValues()
    for kind, tensor in source.items():
        getattr(values, f"add_{kind}")(kind, tensor)
    expected = [
        1.0,
        to_histogram(source["histogram"]),
        to_tensor(source["tensor"]),
        batch_to_image(source["image"]),
    ]
    for tensor in source.values():
        tensor.fill_(9)
    scalar, histogram, tensor_value, image = (value for _, value in values.drain())

    assert scalar == expected[0]
    assert_same(histogram, expected[1])  # type: ignore[arg-type]
    assert pickle.dumps((tensor_value, image)) == pickle.dumps((expected[2], expected[3]))


@pytest.mark.usefixtures("both_ways")
def test_what_cannot_be_converted_is_left_out_and_noted() -> None:
    values = StepValues()
    values.add_scalar("several", torch.ones(2))
    values.add_scalar("complex", torch.tensor(1j))
    values.add_scalar("text", "0.5")  # type: ignore[arg-type]
    values.add_histogram("number", torch.tensor(1.0))
    values.add_scalar("good", torch.tensor(1.0))
    values.add_image("no image", torch.ones(2, 2))
    values.add_tensor("meta", torch.ones(2, device="meta"))

    assert values.drain() == (("good", 1.0),)
    assert sorted(tag for tag, _ in values.problems) == [
        "complex",
        "meta",
        "no image",
        "number",
        "several",
        "text",
    ]
    assert {type(error) for _, error in values.problems} <= {TypeError, ValueError}


@pytest.mark.usefixtures("deferred")
def test_sparse_and_quantized_tensors_are_made_plain_before_they_are_reduced() -> None:
    sparse = torch.eye(50).to_sparse()
    values = StepValues()
    values.add_histogram("sparse", sparse)
    values.add_tensor("sparse", sparse)
    quantized = torch.quantize_per_tensor(noise(50), 0.1, 0, torch.qint8)
    values.add_tensor("quantized", quantized)

    histogram, *tensors = (value for _, value in values.drain())
    assert_same(histogram, to_histogram(sparse))
    expected = [to_tensor(sparse), to_tensor(quantized)]
    assert pickle.dumps(tensors) == pickle.dumps(expected)


class Far(torch.Tensor):
    """A tensor that says it is on a device."""

    device = torch.device("cuda", 1)  # type: ignore[assignment]


class FullDevice(torch.Tensor):
    """A tensor of a device that has no memory for a copy."""

    device = torch.device("cuda", 1)  # type: ignore[assignment]

    def reshape(self, *shape: Any) -> Any:
        raise torch.OutOfMemoryError("no memory on the device")


@pytest.mark.usefixtures("deferred")
def test_a_device_without_memory_costs_its_own_values_alone() -> None:
    values = StepValues()
    values.add_scalar("text", "0.5")  # type: ignore[arg-type]
    values.add_deferred("lost", [torch.ones(2).as_subclass(FullDevice)], to_tensor)
    values.add_scalar("first", torch.tensor(1.0))
    values.add_deferred("lost too", [torch.ones(3).as_subclass(FullDevice)], to_tensor)
    values.add_scalar("second", torch.tensor(2.0))
    values.send()
    values.send()

    assert values.is_ready()
    assert values.drain() == (("first", 1.0), ("second", 2.0))
    (tag, error), *others = values.problems
    assert (tag, type(error)) == ("text", TypeError)
    assert [(tag, str(error)) for tag, error in others] == [
        ("lost", "no memory on the device"),
        ("lost too", "no memory on the device"),
    ]


def test_values_of_several_optimizers_follow_each_other_and_are_moved_once() -> None:
    values, other = StepValues(), StepValues()
    values.add_scalar("first", 1.0)
    values.add_scalar("wrong", "0.5")  # type: ignore[arg-type]
    other.add_scalar("second", torch.tensor(2.0))
    other.add_scalar("wrong too", "0.5")  # type: ignore[arg-type]
    values.extend(other)

    assert values.drain() == (("first", 1.0), ("second", 2.0))
    assert [tag for tag, _ in values.problems] == ["wrong", "wrong too"]
    assert (other.drain(), other.problems) == ((), [])


def test_values_are_ready_at_once_on_the_cpu() -> None:
    values = StepValues()
    values.add_scalar("loss", torch.tensor(1.0))

    assert values.is_ready()


@pytest.mark.usefixtures("deferred")
def test_values_elsewhere_are_ready_after_sending() -> None:
    values = StepValues()
    values.add_scalar("a number of the CPU", 0.5)
    values.add_scalar("loss", torch.tensor(1.0))

    assert not values.is_ready()
    values.send()
    assert values.is_ready()


@pytest.mark.usefixtures("deferred")
def test_values_are_ready_when_the_last_copy_of_any_device_has_arrived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = SimpleNamespace(is_done=False)
    event = SimpleNamespace(
        record=lambda: None, query=lambda: module.is_done, synchronize=lambda: None
    )
    module.Event = lambda: event
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    values = StepValues()
    values.add_deferred("far", [torch.tensor([2.0, 3.0]).as_subclass(Far)], lambda parts: parts[0])
    values.add_scalar("near", torch.tensor(1.0))
    values.send()

    assert not values.is_ready()
    module.is_done = True
    assert values.is_ready()
    assert [(tag, value.tolist()) for tag, value in values.drain()[:1]] == [("far", [2.0, 3.0])]  # type: ignore[union-attr]


def test_nothing_added_gives_nothing() -> None:
    assert StepValues().drain() == ()


def the_whole() -> torch.Tensor:
    whole = noise(1001, 7)
    whole[5], whole[6, 0], whole[900] = math.nan, math.inf, -math.inf
    return whole


def as_rank(folder: Path) -> None:
    rank = int(os.environ["LOCAL_RANK"])
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=2
    )
    mesh = init_device_mesh("cpu", (2,))
    whole = the_whole()
    replicated: Any = DTensor.from_local(whole, mesh, [Replicate()])
    sharded: Any = distribute_tensor(whole, mesh, [Shard(0)])
    values = StepValues()
    values.add_histogram("sharded", sharded)
    values.add_histogram("sharded, transposed", sharded.t())
    values.add_histogram("replicated", replicated)
    values.add_tensor("whole", replicated)
    values.add_tensor("refused", sharded)
    values.add_histogram("refused too", sharded.double())
    results: list[Any] = [
        values.drain(),
        [tag for tag, _ in values.problems],
        histogram_from_parts(histogram_parts(whole[:300] if rank else whole[300:], [None])),
        histogram_from_parts(histogram_parts(whole[:0] if rank else whole[:8], [None])),
    ]
    (folder / str(rank)).write_bytes(pickle.dumps(results))
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # the threads of gloo now and then abort a process that ends by itself


@pytest.fixture(scope="module")
def of_two_processes(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("ranks")
    done = run_two_ranks(as_rank, folder)
    assert done.returncode == 0, done.stderr
    return [pickle.loads((folder / str(rank)).read_bytes()) for rank in range(2)]


@pytest.mark.slow
def test_a_sharded_tensor_has_the_histogram_of_the_whole_on_every_rank(
    of_two_processes: list[Any],
) -> None:
    for harvested, _, in_parts, few_on_one_rank in of_two_processes:
        assert_same(dict(harvested)["sharded"], to_histogram(the_whole()))
        assert_same(dict(harvested)["sharded, transposed"], to_histogram(the_whole()))
        assert_same(in_parts, to_histogram(the_whole()))
        assert_same(few_on_one_rank, to_histogram(the_whole()[:8]))


@pytest.mark.slow
def test_a_replicated_tensor_is_taken_as_it_is(of_two_processes: list[Any]) -> None:
    for harvested, *_ in of_two_processes:
        assert_same(dict(harvested)["replicated"], to_histogram(the_whole()))
        assert pickle.dumps(dict(harvested)["whole"]) == pickle.dumps(to_tensor(the_whole()))


@pytest.mark.slow
def test_a_sharded_tensor_is_not_gathered(of_two_processes: list[Any]) -> None:
    for _, problems, *_ in of_two_processes:
        assert problems == ["refused", "refused too"]
