"""Samples are the same in every call, and a user's generators are where they were."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning.landscape.batches import digest, take_batches

DATA = TensorDataset(torch.arange(40.0).view(20, 2))


class Shuffled:
    """A loader that shuffles by a generator of NumPy or Python."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __iter__(self) -> Iterator[torch.Tensor]:
        order = list(range(20))
        self.generator.shuffle(order)
        yield torch.tensor(order)


LOADERS = {
    "torch": lambda: DataLoader(DATA, 4, shuffle=True, generator=torch.Generator().manual_seed(5)),
    "numpy": lambda: Shuffled(np.random.default_rng(5)),
    "old numpy": lambda: Shuffled(np.random.RandomState(5)),
    "python": lambda: Shuffled(random.Random(5)),
    "global": lambda: Shuffled(random),
}


@pytest.mark.parametrize("kind", LOADERS)
def test_a_loader_with_its_own_generator_gives_the_same_samples_twice_and_is_where_it_was(kind: str) -> None:
    loader, untouched = LOADERS[kind](), LOADERS[kind]()
    random.seed(3)
    once, again, other = (digest(take_batches(loader, 8, seed)) for seed in (0, 0, 1))
    assert once == again != other
    random.seed(3)
    assert [str(batch) for batch in loader] == [str(batch) for batch in _with_seed(untouched)]


def _with_seed(loader: Any) -> Iterator[Any]:
    random.seed(3)
    yield from loader


def test_several_loaders_are_read_as_lightning_combines_them() -> None:
    short, long = DataLoader(DATA, 10), DataLoader(DATA, 4)
    batches = take_batches({"a": short, "b": long}, 100, 0)
    assert len(batches) == 5
    assert [len(part[0]) for part in batches[0].data.values()] == [10, 4]
    assert len(take_batches([short, long], 100, 0)[0].data) == 2
