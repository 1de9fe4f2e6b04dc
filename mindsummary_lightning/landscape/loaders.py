"""The loader that a user's data are read with, as Lightning would, and with random generators that repeat."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from lightning.pytorch.utilities.combined_loader import CombinedLoader
from torch.utils.data import DataLoader

_MAX_DEPTH = 6  # a loader's batch sampler's sampler; a loader over a loader


def loader_of(data: Any) -> Iterable[Any]:
    """What to iterate over: several loaders (a dict, list or tuple of them) as Lightning combines them in training.

    A LightningDataModule is set up for a fit and gives its training loader.
    """
    if is_datamodule(data):
        data.prepare_data()
        data.setup("fit")
        data = data.train_dataloader()
    parts = list(data.values()) if isinstance(data, Mapping) else data
    if isinstance(parts, (list, tuple)) and parts and all(isinstance(part, DataLoader) for part in parts):
        return CombinedLoader(data, "max_size_cycle")
    return data  # type: ignore[no-any-return]  # iterating over anything else raises


def is_datamodule(data: Any) -> bool:
    """Whether these data are a LightningDataModule, of either package."""
    return any(kind.__name__ == "LightningDataModule" for kind in type(data).__mro__)


def batches_of(loader: Iterable[Any]) -> Iterator[Any]:
    """The batches of a loader; a CombinedLoader gives triples that begin with one."""
    is_combined = any(kind.__name__ == "CombinedLoader" for kind in type(loader).__mro__)
    return (item[0] for item in loader) if is_combined else iter(loader)


@contextmanager
def seeded(loader: Any, seed: int) -> Iterator[None]:
    """Seed the global random generators and those of a loader and its samplers; restore them all at the end."""
    with ExitStack() as restored:
        restored.enter_context(torch.random.fork_rng(devices=[]))
        torch.manual_seed(seed)
        for generator in (random, np.random, *_generators(loader)):
            restored.callback(_seed(generator, seed))
        yield


def _seed(generator: Any, seed: int) -> Callable[[], Any]:
    """Seed a generator; returns what restores it."""
    if isinstance(generator, torch.Generator):
        state = generator.get_state()
        generator.manual_seed(seed)
        return lambda: generator.set_state(state)
    if isinstance(generator, np.random.Generator):
        bits: Any = generator.bit_generator
        before, bits.state = bits.state, type(bits)(seed).state
        return lambda: setattr(bits, "state", before)
    is_numpy = generator is np.random or isinstance(generator, np.random.RandomState)
    read, write = (generator.get_state, generator.set_state) if is_numpy else (generator.getstate, generator.setstate)
    state = read()
    generator.seed(seed % 2**32)
    return lambda: write(state)


def _generators(value: Any, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)):
        yield value
    elif depth >= _MAX_DEPTH:
        return
    elif isinstance(value, (list, tuple, Mapping)) and len(value) < 100:
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _generators(part, depth + 1)
    elif hasattr(value, "__dict__") and not isinstance(value, (type, torch.Tensor)):
        for part in vars(value).values():
            yield from _generators(part, depth + 1)
