"""Names of modules and of their tensors, as the user knows them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mindsummary_lightning.graph.module_names import (
    ModuleNames,
    Place,
    module_class_name,
    torch_class_name,
    unwrapped,
)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 3), nn.Linear(2, 3)
        self.second.weight = self.first.weight
        self.norm, self.again = nn.BatchNorm1d(3), nn.ModuleList()
        self.again.append(self.norm)
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("also_scale", self.scale)
        self.register_module("nothing", None)


def _names(network: nn.Module) -> ModuleNames:
    return ModuleNames(network, lambda parent, name, kind: f"{parent}/{name}-{kind}")


def test_a_tied_tensor_and_a_module_with_two_names_are_told_once() -> None:
    names = _names(net := Net())

    assert [(name, kind) for name, kind, _ in names.tensors()] == [
        ("scale", "buffer"),
        ("first.weight", "parameter"),
        ("first.bias", "parameter"),
        ("second.bias", "parameter"),
        ("norm.weight", "parameter"),
        ("norm.bias", "parameter"),
        ("norm.running_mean", "buffer"),
        ("norm.running_var", "buffer"),
        ("norm.num_batches_tracked", "buffer"),
    ]
    assert names.places() == [
        Place(net, "", ""),
        Place(net.first, "first", "/first-Linear"),
        Place(net.second, "second", "/second-Linear"),
        Place(net.norm, "norm", "/norm-BatchNorm1d"),
        Place(net.again, "again", "/again-ModuleList"),
    ]
    assert names.root == names.places()[0]


def test_a_tensor_is_found_by_its_owner_and_a_strangers_is_not() -> None:
    names, strange = _names(net := Net()), nn.Linear(2, 2)
    net.second.plain = torch.ones(2)

    assert names.parameter_name(net.second.weight, names.root) == (id(net.first), "first.weight")
    assert names.parameter_name(net.norm.running_var, names.root) == (
        id(net.norm),
        "norm.running_var",
    )
    assert names.parameter_name(net.second.plain, names.root) == (id(net.second), "second.plain")
    assert names.parameter_name(strange.weight, names.root) is None
    running = Place(strange, "second.Linear", "")
    strange.plain = torch.ones(2)
    assert names.parameter_name(strange.plain, running) == (id(strange), "second.Linear.plain")


def test_a_module_that_is_not_registered_is_placed_where_it_is_called() -> None:
    names, strange, plain = _names(net := Net()), nn.Linear(2, 2), nn.ReLU()
    caller = names.place(net.second, names.root)

    assert caller == Place(net.second, "second", "/second-Linear")
    assert names.place(plain, caller) == Place(plain, "second", "/second-Linear")
    placed = Place(strange, "second.Linear", "/second-Linear/Linear-Linear")
    assert names.place(strange, caller) == placed
    assert names.place(strange, names.root) == placed


class FSDPModule:
    """Named like the class that FSDP2 puts before the user's."""


class FSDPNet(FSDPModule, Net):
    pass


class FSDPLinear(FSDPModule, nn.Linear):
    pass


class DistributedDataParallel(nn.Module):
    """Named like a wrapper, and around another."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


@pytest.mark.parametrize(
    ("module", "name", "torch_name"),
    [
        (Net(), "Net", None),
        (FSDPNet(), "Net", None),
        (FSDPLinear(2, 2), "Linear", "Linear"),
        (nn.BatchNorm1d(2), "BatchNorm1d", "BatchNorm1d"),
        (torch.jit.script(nn.BatchNorm1d(2)), "BatchNorm1d", None),
        (DistributedDataParallel(DistributedDataParallel(Net())), "Net", None),
    ],
    ids=["own", "sharded", "sharded of torch", "of torch", "scripted", "wrapped twice"],
)
def test_a_module_has_the_name_of_the_users_class(
    module: nn.Module, name: str, torch_name: str | None
) -> None:
    assert module_class_name(module) == name
    assert torch_class_name(module) == torch_name


def test_a_wrapper_that_holds_no_module_is_itself() -> None:
    strange = DistributedDataParallel(nn.ReLU())
    strange.module = None  # type: ignore[assignment]

    assert unwrapped(strange) is strange
    assert _names(DistributedDataParallel(net := Net())).root == Place(net, "", "")
