"""Two ranks that are threads of this process, and talk through gloo as processes do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard

from tests.support import of_two_threads

_T = TypeVar("_T")
_LIMIT_S = 60


def of_two_ranks(function: Callable[[int, Any], _T]) -> list[_T]:
    """What a function returns on each rank, which it is given with the group of both."""
    store = dist.HashStore()

    def as_rank(rank: int) -> _T:
        group = dist.ProcessGroupGloo(store, rank, 2, timedelta(seconds=_LIMIT_S))
        return function(rank, group)

    return of_two_threads(as_rank)


def part_of(whole: torch.Tensor, rank: int, group: Any, first: int | None = None) -> Any:
    """A rank's rows of a tensor, with what is read of a DTensor that is sharded over two ranks.

    The first rank has ``first`` rows: half of them, or one more, as torch shares them out.
    """
    first = -(-len(whole) // 2) if first is None else first
    local = whole[first:] if rank else whole[:first]

    class Mesh:
        def get_group(self, dimension: int) -> Any:
            return group

        def size(self, dimension: int) -> int:
            return 2

    class Part(torch.Tensor):
        placements = (Shard(0),)
        device_mesh = Mesh()
        shape = whole.shape  # type: ignore[assignment]

        def numel(self) -> int:
            return whole.numel()

        def to_local(self) -> torch.Tensor:
            return local

    return local.as_subclass(Part)
