"""What a network was is put back, by identity and by value."""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning.landscape.module_state import RestorableState, reachable_tensors
from mindsummary_lightning.landscape.shortcuts import AffinePlaneLoss
from tests.landscape import nets
from tests.landscape.plain_loop import evaluation, plane_of


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("mean", torch.ones(2))
        self.items, self.queue, self.names = [1, [2]], deque([1], maxlen=2), {"a", "b"}
        self.by_key = OrderedDict(a=1, b=torch.zeros(1))
        self.array, self.generator = np.zeros(3), torch.Generator().manual_seed(1)
        self.state = Plain()


class Plain:
    def __init__(self) -> None:
        self.total = torch.zeros(1)


def change(module: Any) -> None:
    module.mean.data.add_(1)
    module.layer.weight.requires_grad_(False)
    module.layer.bias = None
    module.items[1].append(3)
    module.items.clear()
    module.queue.extend([5, 6])
    module.names.add("c")
    module.by_key.move_to_end("a")
    module.by_key["b"].add_(1)
    module.array[1] = 7
    torch.rand(3, generator=module.generator)
    module.state.total = module.state.total + 1
    module.register_forward_hook(print)
    module.new = 1
    module.eval()
    random.random()


def test_everything_that_changed_is_put_back() -> None:
    module = Everything()
    before = dict(vars(module))
    parts = (module.layer.bias, module.items[1], module.state.total, module.generator.get_state(), random.getstate())
    state = RestorableState(module)

    change(module)
    state.restore()

    assert vars(module) == before
    assert module.layer.bias is parts[0]
    assert module.layer.weight.requires_grad
    assert module.items == [1, [2]]
    assert module.items[1] is parts[1]
    assert (list(module.queue), module.names, list(module.by_key)) == ([1], {"a", "b"}, ["a", "b"])
    assert (module.mean.tolist(), module.by_key["b"].item(), module.array.tolist()) == ([1, 1], 0, [0, 0, 0])
    assert module.state.total is parts[2]
    assert torch.equal(module.generator.get_state(), parts[3])
    assert random.getstate() == parts[4]
    assert not module._forward_hooks
    assert module.layer.training


def test_what_has_changed_once_is_put_back_without_looking() -> None:
    module = Everything()
    state = RestorableState(module)
    assert not state.learn_volatile()
    module.mean.add_(1)
    assert state.learn_volatile()
    assert not state.learn_volatile()
    module.array[0] = 5

    state.restore_volatile()

    assert (module.mean.tolist(), module.array[0]) == ([1, 1], 5)


def test_data_and_the_plane_of_a_landscape_are_no_state_and_not_copied() -> None:
    plane_loss = evaluation(nets.Mlp(), plane_of(nets.Mlp()))
    assert isinstance(plane_loss, AffinePlaneLoss)
    net = nets.Mlp()
    data = torch.zeros(1000)
    vars(net).update(data=TensorDataset(data), loader=DataLoader(TensorDataset(data)), forward=plane_loss._forward)
    own = {id(tensor) for tensor in net.parameters()}
    assert {id(tensor) for tensor in reachable_tensors(net)} == own
