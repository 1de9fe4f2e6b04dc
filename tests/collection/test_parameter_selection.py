"""Which parameters are recorded, and under which names."""

from __future__ import annotations

import torch
from torch import nn

from mindsummary_lightning.collection.parameter_selection import parameter_names, select_parameters


def _net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 2))


def _names(net: nn.Module, *optimizers: torch.optim.Optimizer) -> list[str]:
    return [name for name, _ in parameter_names(net, optimizers)]


def test_parameters_come_in_the_optimizers_order() -> None:
    net = _net()
    groups = [{"params": net[2].parameters()}, {"params": net[0].parameters()}]

    assert _names(net, torch.optim.SGD(groups, lr=0.1)) == ["2.weight", "2.bias", "0.weight", "0.bias"]


def test_frozen_parameters_that_no_optimizer_holds_are_not_listed() -> None:
    net = _net()

    assert _names(net, torch.optim.SGD(net[1].parameters(), lr=0.1)) == ["1.weight", "1.bias"]


def test_a_parameter_of_two_optimizers_is_listed_once() -> None:
    net = _net()
    optimizers = [torch.optim.SGD(net[0].parameters(), lr=0.1), torch.optim.SGD(net.parameters(), lr=0.1)]

    assert _names(net, *optimizers) == [f"{index}.{part}" for index in range(3) for part in ("weight", "bias")]


def test_tied_weights_have_one_name() -> None:
    net = _net()
    net[2].weight = net[1].weight = nn.Parameter(torch.zeros(3, 3))

    assert _names(net, torch.optim.SGD(net.parameters(), lr=0.1)).count("1.weight") == 1
    assert "2.weight" not in _names(net, torch.optim.SGD(net.parameters(), lr=0.1))


def test_names_of_compiled_parts_are_those_of_the_plain_module() -> None:
    net = _net()
    net[1] = torch.compile(net[1])  # type: ignore[assignment]

    assert _names(net, torch.optim.SGD(net.parameters(), lr=0.1))[2:4] == ["1.weight", "1.bias"]


def test_a_parameter_from_outside_the_module_is_left_out() -> None:
    assert _names(_net(), torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)) == []


def test_without_an_expression_the_first_five_are_taken() -> None:
    net = _net()
    named = parameter_names(net, [torch.optim.SGD(net.parameters(), lr=0.1)])

    assert [name for name, _ in select_parameters(named, None)] == [name for name, _ in named[:5]]


def test_an_expression_is_matched_from_the_start_of_the_name() -> None:
    net = _net()
    named = parameter_names(net, [torch.optim.SGD(net.parameters(), lr=0.1)])

    assert [name for name, _ in select_parameters(named, "1|2.b")] == ["1.weight", "1.bias", "2.bias"]
    assert select_parameters(named, "weight") == []
    assert len(select_parameters(named, ".*weight")) == 3
