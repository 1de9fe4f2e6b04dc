"""Data pipelines of the kinds people build, each as a loader, for the tests of the data pages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.utilities import CombinedLoader
from torch import nn
from torch.utils.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)


class Compose:  # torchvision's v1 and v2 have this name and this field
    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x


class Resize(nn.Module):  # torchvision's v2 transforms are modules
    def __init__(self, size: tuple[int, int], antialias: bool = True) -> None:
        super().__init__()
        self.size, self.antialias = size, antialias


class Normalize:
    def __init__(self, mean: list[float], std: list[float]) -> None:
        self.mean, self.std = mean, std

    def __call__(self, x: Any) -> Any:
        return x


class RandomApply(nn.Module):
    def __init__(self, transforms: list[Any], p: float) -> None:
        super().__init__()
        self.transforms, self.p = transforms, p


class Pictures(Dataset[Any]):
    def __init__(
        self, root: str | Path = "pictures", transform: Any = None, target_transform: Any = None
    ) -> None:
        self.root, self.transform, self.target_transform = root, transform, target_transform

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("no sample may be fetched")


class ImageFolder(Pictures):
    """Named like torchvision's."""


class MapDataset(Pictures):
    """A source whose name means a stage to the pages."""


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("nothing may be iterated")


class Batch:
    """A loader of another library, named like a stage of the pages."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("nothing may be iterated")

    def __len__(self) -> int:
        return 3


class Around(DataLoader[Any]):
    """Passes the batches of another loader on, as libraries do that move them to a device."""

    def __iter__(self) -> Any:
        yield from self.dataset


class Wrapper(Dataset[Any]):
    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("no sample may be fetched")


class Untouchable(Dataset[Any]):
    """Every attribute raises, so does its length."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") and name != "__dict__":
            return super().__getattribute__(name)
        raise RuntimeError(f"{name} is not to be read")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("no sample may be fetched")


def _pictures(kind: type[Pictures] = Pictures) -> Pictures:
    steps = [
        Resize((4, 6)), RandomApply([Normalize([0.5], [0.5]), Resize((2, 3))], p=0.3),
        lambda x: x, torch.flatten,
        functools.partial(torch.clamp, min=0.0), Compose([Normalize([0.1, 0.2], [1.0, 1.0])]),
    ]  # fmt: skip
    return kind(
        transform=Compose(steps), target_transform=nn.Sequential(nn.Flatten(), nn.Linear(2, 2))
    )


def _tensors(count: int = 21) -> TensorDataset:
    return TensorDataset(torch.zeros(count, 3), torch.zeros(count))


def _itself() -> Dataset[Any]:
    dataset = Wrapper(_tensors())
    dataset.dataset = dataset
    return dataset


# Kind -> the loader, made anew at each call.
PIPELINES: dict[str, Callable[[], Any]] = {
    "tensors": lambda: DataLoader(_tensors(), batch_size=4, shuffle=True, drop_last=True),
    "transforms": lambda: DataLoader(_pictures(), batch_size=8),
    "image-folder": lambda: DataLoader(_pictures(ImageFolder), batch_size=8, shuffle=True),
    "named-like-a-stage": lambda: DataLoader(MapDataset(), batch_size=2),
    "weighted": lambda: DataLoader(
        _tensors(3), 2, sampler=WeightedRandomSampler([0.2, 0.3, 0.5], 10)
    ),
    "subset-sampler": lambda: DataLoader(_tensors(), 2, sampler=SubsetRandomSampler(range(10))),
    "subset": lambda: DataLoader(Subset(_pictures(), [1, 2, 3]), 2),
    "split": lambda: DataLoader(random_split(_tensors(20), [15, 5])[0], 5),
    "concat": lambda: DataLoader(ConcatDataset([_tensors(), _pictures()]), 2),
    "stack": lambda: DataLoader(StackDataset(image=_pictures(), vector=_tensors(50)), 2),
    "chain": lambda: DataLoader(ChainDataset([Stream(), Stream()]), 2),
    "stream": lambda: DataLoader(Stream(), 16),
    "wrapped": lambda: DataLoader(Wrapper(_pictures()), 2),
    "unbatched": lambda: DataLoader(_tensors(), batch_size=None),
    "combined": lambda: CombinedLoader(
        {"a": DataLoader(_tensors(40), 4), "b": DataLoader(_tensors(8), 4, shuffle=True)},
        "max_size_cycle",
    ),
    "many": lambda: DataLoader(ConcatDataset([_tensors(1)] * 5000), 2),
    "untouchable": lambda: DataLoader(Untouchable(), 2),
    "of-another-library": Batch,
    "itself": lambda: DataLoader(_itself(), 2),
}
