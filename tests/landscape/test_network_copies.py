"""A copy of a network has everything of its own that the network may change, and the user's stays
what it was.
"""

from __future__ import annotations

import random
import threading
from collections import OrderedDict, deque
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from mindsummary_lightning.landscape.network_copies import NetworkCopies, pickled, unpickled
from tests.landscape.zoo import Parametrized, SharedMemory, Slotted


class Everything(nn.Module):
    """Each kind of state; ``change`` changes all of it and ``look`` tells it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("mean", torch.ones(2))
        self.half = self.mean[:1]
        self.graph = [self.layer.weight.sum()]
        self.items, self.queue, self.names = [1, [2]], deque([1], maxlen=2), {"a"}
        self.by_key = OrderedDict(a=1, b=torch.zeros(1))
        self.array, self.slotted = np.zeros(3), Slotted()
        self.generators = [
            torch.Generator().manual_seed(1),
            np.random.default_rng(1),
            random.Random(1),
        ]
        self.partial, self.closed, self.itself = (
            partial(count, {"calls": 0}),
            counter(),
            lambda: self,
        )
        self.lock, self.data, self.method = (
            threading.Lock(),
            TensorDataset(torch.zeros(3)),
            self.change,
        )

    def change(self) -> None:
        self.mean.data.add_(1)
        self.items[1].append(3)
        self.queue.append(5)
        self.names.add("c")
        self.by_key.move_to_end("a")
        self.by_key["b"].add_(1)
        self.array[1] = 7
        self.slotted.total += 1
        self.register_forward_hook(print)
        self.eval()
        self.closed()

    def look(self) -> list[Any]:
        torch_random, numpy_random, python_random = self.generators
        return [
            *(
                self.mean.tolist(),
                self.half.tolist(),
                self.items[1][:],
                list(self.queue),
                set(self.names),
            ),
            *(
                list(self.by_key),
                self.by_key["b"].item(),
                self.array.tolist(),
                self.slotted.total,
                self.training,
            ),
            *(
                torch.rand(1, generator=torch_random).item(),
                numpy_random.random(),
                python_random.random(),
            ),
            *(self.partial(), self.closed(), len(self._forward_hooks)),
        ]


def count(store: dict[str, int]) -> int:
    store["calls"] += 1
    return store["calls"]


def counter() -> Any:
    calls = 0

    def call(one: list[int], *, other: list[int]) -> int:
        nonlocal calls
        calls += 1
        for memory in (one, other, call.memory):
            memory.append(1)
        return calls + len(one) + len(other) + len(call.memory)

    call.__defaults__, call.__kwdefaults__, call.memory = ([],), {"other": []}, [1]
    return call


def test_nothing_that_one_copy_changes_is_there_in_the_next() -> None:
    net = Everything()
    copies = NetworkCopies(net)
    expected = Everything().look()
    for _ in range(2):
        copy = copies.make()
        copy.method()
        copy.itself().items.append(copy.itself() is copy)
        assert copy.items[-1] is True
        assert copy.look() != expected
    assert copies.make().look() == expected
    assert net.look() == expected


def test_named_tensors_data_sets_and_what_cannot_be_copied_are_shared() -> None:
    net = Everything()
    copies = NetworkCopies(net, [net.layer.weight])
    copy = copies.make()
    assert copy.layer.weight is net.layer.weight
    assert copy.data is net.data
    assert copy.lock is net.lock
    assert copy.layer.bias is not net.layer.bias


def test_tensors_in_one_memory_are_in_one_memory_again() -> None:
    copy = NetworkCopies(Everything()).make()
    copy.mean.add_(4)
    assert copy.half.tolist() == [5]


@pytest.mark.parametrize("shares", [True, False])
def test_memory_is_copied_or_shared_as_a_whole(shares: bool) -> None:
    net = Everything()
    copies = NetworkCopies(net)
    assert net.mean.data_ptr() in copies.memory
    assert (copies.make(shares_memory=shares).mean.data_ptr() == net.mean.data_ptr()) is shares


def test_what_another_process_gets_computes_the_same_and_shares_the_same_memory() -> None:
    net, x = Parametrized().eval(), torch.randn(3, 64)
    sent = unpickled(pickled(net))
    torch.testing.assert_close(sent(x), net(x))
    sent.net[0].parametrizations.weight.original0.data.mul_(2)
    torch.testing.assert_close(sent.net[0].weight, 2 * net.net[0].weight)
    shared = unpickled(pickled(SharedMemory()))
    assert shared.decoder.weight.data_ptr() == shared.encoder.weight.data_ptr()


def test_what_cannot_be_sent_to_another_process_is_refused() -> None:
    net = nn.Identity()
    net.lock = threading.Lock()

    with pytest.raises(TypeError, match="several devices need a module and loss that can be pick"):
        pickled(net)
