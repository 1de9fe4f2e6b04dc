"""Samples are read once, the same ones in every call, and a user's generators are where
they were.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning.landscape.batches import Batch, digest, joined, take_batches

DATA = TensorDataset(torch.arange(20.0).view(10, 2), torch.arange(10))
MORE = TensorDataset(torch.arange(40.0).view(20, 2))


def counts(batches: tuple[Batch, ...]) -> list[int]:
    return [batch.samples for batch in batches]


@pytest.mark.parametrize(
    ("num_samples", "expected"),
    [(100, [4, 4, 2]), (10, [4, 4, 2]), (9, [4, 4]), (8, [4, 4]), (7, [4]), (1, [4])],
)
def test_whole_batches_are_taken_up_to_the_number_of_samples(
    num_samples: int, expected: list[int]
) -> None:
    assert counts(take_batches(DataLoader(DATA, 4), num_samples, 0)) == expected


def test_an_endless_loader_is_read_no_further_than_needed() -> None:
    def endless() -> object:
        yield torch.zeros(4, 1)
        yield torch.zeros(4, 1)
        pytest.fail("read on")

    assert counts(take_batches(endless(), 8, 0)) == [4, 4]


def test_a_batch_may_be_an_object_with_tensors_and_is_joined_with_no_other() -> None:
    class Graphs:  # as libraries of graph networks have them
        def __init__(self, value: float) -> None:
            self.x, self.names = torch.full((4, 2), value), ["a", "b", "c", "d"]

    zeros, ones = (take_batches([Graphs(value)] * 3, 8, 0) for value in (0.0, 1.0))

    assert counts(joined(zeros, 8)) == [4, 4]
    assert digest(zeros) != digest(ones)


def test_the_first_tensor_that_has_samples_tells_their_number() -> None:
    batch = (torch.tensor(0.5), torch.zeros(0, 2), torch.zeros(3, 2))

    assert counts(take_batches([batch], 100, 0)) == [3]


def test_a_batch_without_a_batch_dimension_is_refused() -> None:
    with pytest.raises(
        ValueError, match="a batch of type str has no tensor with a batch dimension"
    ):
        take_batches(["text"], 4, 0)


def test_batches_are_joined_as_far_as_they_fit() -> None:
    batches = tuple(
        Batch((torch.full((size, 3), float(i)), {"y": torch.tensor([i] * size)}), size)
        for i, size in enumerate((2, 3, 1, 4, 2))
    )
    found = joined(batches, 5)
    assert counts(found) == [5, 5, 2]
    inputs, targets = found[1].data
    assert inputs.tolist() == [[2.0] * 3, [3.0] * 3, [3.0] * 3, [3.0] * 3, [3.0] * 3]
    assert targets["y"].tolist() == [2, 3, 3, 3, 3]
    assert [batch.data[1]["y"].tolist() for batch in joined(batches, 0)] == [
        *([0, 0], [1, 1, 1], [2], [3] * 4, [4, 4])
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 4)),
        (torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int64)),
        ([torch.zeros(2, 3)], (torch.zeros(2, 3),)),
        ({"a": torch.zeros(2, 3)}, {"b": torch.zeros(2, 3)}),
        ((torch.zeros(2, 3), "text"), (torch.zeros(2, 3), "text")),
        ((torch.zeros(2, 3), torch.zeros(5)), (torch.zeros(2, 3), torch.zeros(5))),
        ((torch.zeros(2, 3), torch.tensor(1.0)), (torch.zeros(2, 3), torch.tensor(1.0))),
    ],
)
def test_batches_that_cannot_be_joined_stay_apart(one: object, other: object) -> None:
    assert counts(joined((Batch(one, 2), Batch(other, 2)), 100)) == [2, 2]


def test_batches_of_other_elements_types_shapes_or_texts_have_another_digest() -> None:
    def sparse(column: int) -> torch.Tensor:
        return torch.stack([torch.zeros(3), torch.eye(3)[column]])

    batches = (
        *(torch.zeros(2, 3), torch.zeros(3, 2), torch.zeros(2, 3, dtype=torch.int32)),
        *(torch.zeros(0), torch.zeros(0, 3), "a", "b", 1.5, {"a": torch.zeros(2, 3)}),
        *(sparse(1).to_sparse(), sparse(2).to_sparse(), sparse(1).to_sparse_csr()),
    )
    digests = [digest((Batch(data, 2),)) for data in batches]

    assert len(set(digests)) == len(batches) - 1  # both layouts of a sparse matrix are one
    assert digests[-1] == digests[-3]
    assert digest((Batch(torch.arange(4.0)[::2], 2),)) == digest(
        (Batch(torch.tensor([0.0, 2.0]), 2),)
    )


class Shuffled:
    """A loader that shuffles by a generator of NumPy or Python."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __iter__(self) -> Iterator[torch.Tensor]:
        order = list(range(20))
        self.generator.shuffle(order)
        yield torch.tensor(order)


class OfGlobalNumpy:
    """A loader that shuffles by NumPy's own generator."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield torch.tensor(np.random.permutation(20))  # noqa: NPY002 - as users write it


LOADERS = {
    "torch": lambda: DataLoader(MORE, 4, shuffle=True, generator=torch.Generator().manual_seed(5)),
    "global torch": lambda: DataLoader(MORE, 4, shuffle=True),
    "numpy": lambda: Shuffled(np.random.default_rng(5)),
    "old numpy": lambda: Shuffled(np.random.RandomState(5)),
    "python": lambda: Shuffled(random.Random(5)),
    "global": lambda: Shuffled(random),
    "global numpy": OfGlobalNumpy,
}


@pytest.mark.parametrize("kind", LOADERS)
def test_a_loader_with_its_own_generator_gives_the_same_samples_twice_and_is_where_it_was(
    kind: str,
) -> None:
    loader, untouched = LOADERS[kind](), LOADERS[kind]()
    before = random.getstate(), torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
    seeds = (0, 0, 2**32 + 1)
    once, again, other = (digest(take_batches(loader, 8, seed)) for seed in seeds)
    assert once == again != other
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    assert np.array_equal(np.random.get_state()[1], before[2][1])  # noqa: NPY002
    if "global" not in kind:
        assert [str(batch) for batch in loader] == [str(batch) for batch in untouched]


def test_several_loaders_are_read_as_lightning_combines_them() -> None:
    short, long = DataLoader(MORE, 10), DataLoader(MORE, 4)
    batches = take_batches({"a": short, "b": long}, 100, 0)
    assert len(batches) == 5
    assert [len(part[0]) for part in batches[0].data.values()] == [10, 4]
    assert len(take_batches([short, long], 100, 0)[0].data) == 2
