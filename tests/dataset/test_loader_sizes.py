"""Batch size and number of samples: what a loader states, where its first batch does not contradict it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from lightning.pytorch.utilities import CombinedLoader
from torch.nn.utils.rnn import pack_sequence, pad_sequence
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
)

from mindsummary_lightning.dataset.loader_sizes import fits, loader_sizes
from tests.dataset.pipelines import PIPELINES, Around, Pictures, Stream, Untouchable


def vectors(count: int) -> TensorDataset:
    return TensorDataset(torch.zeros(count, 3), torch.zeros(count))


def sizes(loader: Any, *limit: float) -> tuple[int | None, int | None]:
    """What is known of a loader that a training has read the first batch of."""
    return tuple(loader_sizes(loader, next(iter(loader)), *limit))  # type: ignore[return-value]


class Batches(IterableDataset[Any]):
    """Yields whole batches."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.zeros(6, 8, 3))

    def __len__(self) -> int:
        return 6


class Tokens(Sampler[list[int]]):
    """Batches of as many sequences as hold a number of tokens."""

    def __iter__(self) -> Iterator[list[int]]:
        yield from ([0, 1, 2], [3], [4, 5])

    def __len__(self) -> int:
        return 3


class Sequences(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(index + 2)


class Chunks(Dataset[torch.Tensor]):
    """Each item is a batch."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(16, 3)


def bulk(count: int, size: int, drop_last: bool) -> DataLoader[Any]:
    """PyTorch's documented way of loading whole batches from a data set that takes many indices at once."""
    data = vectors(count)
    return DataLoader(data, sampler=BatchSampler(RandomSampler(data), size, drop_last), batch_size=None)


LOADERS: dict[str, tuple[Callable[[], Any], tuple[int | None, int | None]]] = {
    "plain": (lambda: DataLoader(vectors(21), 4), (4, 21)),
    "drop_last": (lambda: DataLoader(vectors(21), 4, drop_last=True), (4, 20)),
    "fewer samples than a batch": (lambda: DataLoader(vectors(3), 8), (8, 3)),
    "one sample in a batch": (lambda: DataLoader(vectors(5), 1), (1, 5)),
    "bulk": (lambda: bulk(96, 32, False), (32, 96)),
    "bulk with a rest": (lambda: bulk(90, 32, False), (32, 90)),
    "bulk without the rest": (lambda: bulk(90, 32, True), (32, 64)),
    "loader around a loader": (lambda: Around(DataLoader(vectors(96), 24)), (24, 96)),
    "two loaders around one": (lambda: Around(Around(DataLoader(vectors(96), 24))), (24, 96)),
    "subset": (lambda: DataLoader(vectors(21), 4, sampler=SubsetRandomSampler(range(10))), (4, 10)),
    "stream of batches": (lambda: DataLoader(Batches(), batch_size=None), (None, None)),
    "stream of batches joined": (lambda: DataLoader(Batches(), 2, collate_fn=torch.cat), (None, None)),
    "items that are batches": (lambda: DataLoader(Chunks(), batch_size=None), (None, None)),
    "samples one by one": (lambda: DataLoader(vectors(5), batch_size=None), (None, None)),
    "as many as tokens": (lambda: DataLoader(Sequences(), batch_sampler=Tokens(), collate_fn=list), (None, None)),
    "padded": (lambda: DataLoader(Sequences(), 2, collate_fn=lambda b: pad_sequence(b, batch_first=True)), (2, 6)),
    "time first": (lambda: DataLoader(Sequences(), 2, collate_fn=pad_sequence), (None, None)),
    "packed": (lambda: DataLoader(Sequences(), 3, collate_fn=lambda b: pack_sequence(b, False)), (3, 6)),
    "lists of tensors": (lambda: DataLoader(Sequences(), 3, collate_fn=list), (3, 6)),
    "doubled by its collate_fn": (
        lambda: DataLoader(vectors(21), 4, collate_fn=lambda b: torch.cat([torch.stack([x for x, _ in b])] * 2)),
        (None, None),
    ),
    "several": (lambda: [DataLoader(vectors(40), 4), DataLoader(vectors(8), 2)], (4, 40)),
}  # fmt: skip


@pytest.mark.parametrize("kind", LOADERS)
def test_sizes_are_told_where_the_first_batch_has_them(kind: str) -> None:
    make, expected = LOADERS[kind]
    loader = make()
    batch = [next(iter(part)) for part in loader] if isinstance(loader, list) else next(iter(loader))

    assert loader_sizes(loader, batch) == expected


@pytest.mark.parametrize(
    ("loaders", "batch_of"),
    [
        (lambda a, b: {"a": a, "b": b}, lambda a, b: {"a": a, "b": b}),
        (lambda a, b: CombinedLoader({"a": a, "b": b}, "min_size"), lambda a, b: {"a": a, "b": b}),
        (lambda a, b: [a, {"inner": b}], lambda a, b: [a, {"inner": b}]),
    ],
    ids=["dict", "combined", "nested"],
)
def test_of_several_loaders_the_first_is_checked_against_its_own_part(
    loaders: Callable[..., Any], batch_of: Callable[..., Any]
) -> None:
    parts = DataLoader(vectors(40), 4), DataLoader(vectors(9), 3)
    batches = [next(iter(part)) for part in parts]

    assert loader_sizes(loaders(*parts), batch_of(*batches)) == (4, 40)
    assert loader_sizes(loaders(*parts), batch_of(*reversed(batches))) == (None, None)


class Pair(NamedTuple):
    nodes: torch.Tensor
    labels: torch.Tensor


@pytest.mark.parametrize(
    ("batch", "size", "expected"),
    [
        (SimpleNamespace(num_graphs=3, x=torch.zeros(17, 2)), 3, True),
        (SimpleNamespace(num_graphs=3, x=torch.zeros(17, 2)), 17, False),
        (SimpleNamespace(batch_size=torch.Size([5]), x=torch.zeros(5, 5)), 5, True),
        (Pair(torch.zeros(17, 2), torch.zeros(4)), 4, True),
        ({"x": torch.zeros(8, 2), "step": torch.tensor(3)}, 8, True),
        ({"x": torch.zeros(8, 2), "mask": torch.zeros(8, 9), "texts": ["a"] * 8}, 8, True),
        ({"x": torch.zeros(8, 2)}, 1, False),
        ({"x": torch.zeros(1, 2), "y": torch.zeros(7)}, 1, False),
        (["a", "b", "c"], 3, True),
        (torch.tensor(1.0), 1, False),
        (None, 1, False),
        (object(), 4, False),
        (torch.zeros(6, 2).to_sparse(), 6, True),
        (torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), 2, True),
    ],
)
def test_a_batch_tells_how_many_samples_it_may_have(batch: Any, size: int, expected: bool) -> None:
    assert fits(batch, size) == expected


def test_a_limit_of_batches_bounds_the_size() -> None:
    loader = DataLoader(vectors(21), 4)

    assert [sizes(loader, limit)[1] for limit in (2, 5, 6, 100, float("inf"))] == [8, 20, 21, 21, 21]


def test_the_samples_of_all_devices_count_once() -> None:
    data = vectors(21)
    loader = DataLoader(data, 4, sampler=DistributedSampler(data, num_replicas=2, rank=0))

    assert len(loader.sampler) == 11  # type: ignore[arg-type]  # one sample is read twice
    assert sizes(loader) == (4, 21)
    assert sizes(loader, 2) == (4, 16)


def test_a_stream_has_a_size_if_it_knows_its_length() -> None:
    class Measured(Stream):
        def __len__(self) -> int:
            return 10

    batch = torch.zeros(4, 2)
    assert loader_sizes(DataLoader(Stream(), 4), batch) == (4, None)
    assert loader_sizes(DataLoader(Measured(), 4), batch) == (4, 10)
    assert loader_sizes(DataLoader(Measured(), 4), batch, 2) == (4, 8)


def test_a_size_beyond_32_bits_is_not_told() -> None:
    class Huge(Pictures):
        def __len__(self) -> int:
            return 2**40

    assert loader_sizes(DataLoader(Huge(), 4), torch.zeros(4, 2)) == (4, None)


@pytest.mark.parametrize("nothing", [None, 3, "text", object(), DataLoader(Untouchable(), 2)])
def test_what_states_nothing_has_no_sizes(nothing: object) -> None:
    assert loader_sizes(nothing, torch.zeros(4, 2)) == (None, None)


def test_no_further_sample_is_fetched() -> None:
    assert loader_sizes(PIPELINES["transforms"](), torch.zeros(8, 2)) == (8, 50)
