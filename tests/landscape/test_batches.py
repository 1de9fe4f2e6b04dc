from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning.landscape.batches import Batch, digest, joined, take_batches

DATA = TensorDataset(torch.arange(20.0).view(10, 2), torch.arange(10))


def counts(batches: tuple[Batch, ...]) -> list[int]:
    return [batch.samples for batch in batches]


@pytest.mark.parametrize(
    ("num_samples", "expected"), [(100, [4, 4, 2]), (10, [4, 4, 2]), (9, [4, 4]), (8, [4, 4]), (7, [4]), (1, [4])]
)
def test_whole_batches_are_taken_up_to_the_number_of_samples(num_samples: int, expected: list[int]) -> None:
    assert counts(take_batches(DataLoader(DATA, 4), num_samples, 0)) == expected


def test_an_endless_loader_is_read_no_further_than_needed() -> None:
    def endless() -> object:
        yield torch.zeros(4, 1)
        yield torch.zeros(4, 1)
        pytest.fail("read on")

    assert counts(take_batches(endless(), 8, 0)) == [4, 4]


def test_a_shuffling_loader_depends_on_the_seed_alone_and_leaves_the_random_state() -> None:
    state = torch.get_rng_state()
    once, again, other = (take_batches(DataLoader(DATA, 4, shuffle=True), 10, seed) for seed in (1, 1, 2))
    assert digest(once) == digest(again) != digest(other)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_batch_may_be_an_object_with_tensors_and_is_joined_with_no_other() -> None:
    class Graphs:  # as libraries of graph networks have them
        def __init__(self, value: float) -> None:
            self.x, self.names = torch.full((4, 2), value), ["a", "b", "c", "d"]

    zeros, ones = (take_batches([Graphs(value)] * 3, 8, 0) for value in (0.0, 1.0))

    assert counts(joined(zeros, 8)) == [4, 4]
    assert digest(zeros) != digest(ones)


def test_a_batch_without_a_batch_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match="a batch of type str has no tensor with a batch dimension"):
        take_batches(["text"], 4, 0)


def test_batches_are_joined_as_far_as_they_fit() -> None:
    batches = tuple(Batch((torch.full((2, 3), float(i)), {"y": torch.tensor([i, i])}), 2) for i in range(5))
    found = joined(batches, 4)
    assert counts(found) == [4, 4, 2]
    inputs, targets = found[1].data
    assert inputs.tolist() == [[2.0] * 3, [2.0] * 3, [3.0] * 3, [3.0] * 3]
    assert targets["y"].tolist() == [2, 2, 3, 3]


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
