"""Which parameters are recorded, and under which names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import BackboneFinetuning, ModelPruning
from torch import nn
from torch.nn.utils import parametrize, prune
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import SummaryCollector, SummaryReader
from mindsummary_lightning.collection.options import CollectOptions
from mindsummary_lightning.collection.parameter_selection import (
    NamedParameter,
    ParameterNames,
    select_parameters,
)
from mindsummary_lightning.collection.schedule import Schedule
from mindsummary_lightning.collection.step_collector import StepCollector
from mindsummary_lightning.conversion.histograms import to_histogram


def _net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 2))


def _names(net: nn.Module, *optimizers: torch.optim.Optimizer) -> list[str]:
    return [each.name for each in ParameterNames().of(net, optimizers)]


def test_parameters_come_in_the_optimizers_order() -> None:
    net = _net()
    groups = [{"params": net[2].parameters()}, {"params": net[0].parameters()}]

    assert _names(net, torch.optim.SGD(groups, lr=0.1)) == [
        "2.weight",
        "2.bias",
        "0.weight",
        "0.bias",
    ]


def test_frozen_parameters_that_no_optimizer_holds_are_not_listed() -> None:
    net = _net()

    assert _names(net, torch.optim.SGD(net[1].parameters(), lr=0.1)) == ["1.weight", "1.bias"]


def test_a_parameter_of_two_optimizers_is_listed_once() -> None:
    net = _net()
    optimizers = [
        torch.optim.SGD(net[0].parameters(), lr=0.1),
        torch.optim.SGD(net.parameters(), lr=0.1),
    ]

    assert _names(net, *optimizers) == [
        f"{index}.{part}" for index in range(3) for part in ("weight", "bias")
    ]


def test_tied_weights_have_one_name() -> None:
    net = _net()
    net[2].weight = net[1].weight = nn.Parameter(torch.zeros(3, 3))

    assert _names(net, torch.optim.SGD(net.parameters(), lr=0.1)).count("1.weight") == 1
    assert "2.weight" not in _names(net, torch.optim.SGD(net.parameters(), lr=0.1))


@pytest.mark.slow
def test_names_of_compiled_parts_are_those_of_the_plain_module() -> None:
    net = _net()
    net[1] = torch.compile(net[1])  # type: ignore[assignment]

    assert _names(net, torch.optim.SGD(net.parameters(), lr=0.1))[2:4] == ["1.weight", "1.bias"]


def test_a_parameter_from_outside_the_module_is_left_out() -> None:
    assert _names(_net(), torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)) == []


def test_without_an_expression_the_first_five_are_taken() -> None:
    net = _net()
    named = ParameterNames().of(net, [torch.optim.SGD(net.parameters(), lr=0.1)])

    assert select_parameters(named, None) == named[:5]


def test_an_expression_is_matched_from_the_start_of_the_name() -> None:
    net = _net()
    named = ParameterNames().of(net, [torch.optim.SGD(net.parameters(), lr=0.1)])

    assert [each.name for each in select_parameters(named, "1|2.b")] == [
        "1.weight",
        "1.bias",
        "2.bias",
    ]
    assert select_parameters(named, "weight") == []
    assert len(select_parameters(named, ".*weight")) == 3


def test_parameters_are_looked_up_once_as_long_as_they_are_the_same() -> None:
    net, names = _net(), ParameterNames()
    # of ``weight_orig``, unpruned
    optimizer = torch.optim.SGD(nn.utils.spectral_norm(net[0]).parameters(), lr=0.1)
    optimizer.add_param_group({"params": net[1].parameters()})
    prune.l1_unstructured(net[1], "weight", amount=6)

    assert names.of(net, [optimizer]) is (first := names.of(net, [optimizer]))
    prune.l1_unstructured(net[1], "weight", amount=1)
    assert names.of(net, [optimizer]) is not first
    held = optimizer.param_groups[0]["params"]
    held[0] = net[2].weight
    assert next(each.name for each in names.of(net, [optimizer])) == "2.weight"
    net[2].weight = nn.Parameter(torch.zeros(2, 3))
    assert "2.weight" not in [each.name for each in names.of(net, [optimizer])]
    names.release()
    assert [each.name for each in names.of(net, [optimizer])][-2:] == ["1.weight", "1.bias"]


def test_a_pruned_weight_has_the_name_and_the_value_that_the_module_computes_with() -> None:
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    prune.l1_unstructured(net[1], "weight", amount=6)

    (pruned,) = [each for each in ParameterNames().of(net, [optimizer]) if each.name == "1.weight"]
    # what an optimizer does; the module's own weight is that of its last call
    net[1].weight_orig.data += 1
    assert torch.equal(pruned.value(), net[1].weight_orig * net[1].weight_mask)
    assert int((pruned.value() == 0).sum()) == 6

    prune.remove(net[1], "weight")
    assert "1.weight" in _names(net, optimizer)


def test_a_mask_of_the_users_own_is_none_of_pruning() -> None:
    net = _net()
    net[0].register_buffer("weight_mask", torch.zeros(3, 2))
    prune.l1_unstructured(net[1], "weight", amount=6)
    net[1].weight_mask = torch.zeros(1)  # of another shape than the weight
    prune.l1_unstructured(net[2], "weight", amount=1)
    net[2].weight_orig._fsdp_flattened = True  # a part, of which the mask tells nothing
    found = ParameterNames().of(net, [torch.optim.SGD(net.parameters(), lr=0.1)])

    values = {each.name: each.value() for each in found if "weight" in each.name}
    assert [*values] == ["0.weight", "1.weight_orig", "2.weight_orig"]
    assert torch.equal(values["0.weight"], net[0].weight)
    assert torch.equal(values["1.weight_orig"], net[1].weight_orig)
    assert torch.equal(values["2.weight_orig"], net[2].weight_orig)


def test_a_parametrized_weight_says_that_it_is_the_original_and_is_found_by_either_name() -> None:
    net = _net()
    parametrize.register_parametrization(net[1], "weight", nn.Hardtanh())
    named = ParameterNames().of(net, [torch.optim.SGD(net.parameters(), lr=0.1)])

    for pattern in ("1.weight", "1.parametrizations"):
        (found,) = select_parameters(named, pattern)
        assert found.name == "1.parametrizations.weight.original"
        assert torch.equal(found.value(), net[1].parametrizations.weight.original)


def test_a_computed_weight_is_never_computed_by_us() -> None:
    class Counting(nn.Module):
        calls = 0

        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            Counting.calls += 1
            return weight

    net = _net()
    parametrize.register_parametrization(net[1], "weight", Counting())
    calls = Counting.calls
    for each in ParameterNames().of(net, [torch.optim.SGD(net.parameters(), lr=0.1)]):
        each.value()

    assert Counting.calls == calls


class _Tuned(LightningModule):
    """A head that trains, and a backbone that may join it later."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.head = nn.Linear(4, 4), nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        return self.head(self.backbone(batch[0])).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            [weight for weight in self.parameters() if weight.requires_grad], lr=0.1
        )


class _Watch(Callback):
    """The parameters as they are after each epoch, which has one step."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[torch.Tensor] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        module, _, key = self.name.rpartition(".")
        owner = pl_module.get_submodule(module)
        weight = getattr(owner, f"{key}_orig", None)
        now = getattr(owner, key) if weight is None else weight * getattr(owner, f"{key}_mask")
        self.seen.append(now.detach().clone())


def _fit(
    folder: Path, epochs: int, watched: str, *callbacks: Callback, **options: Any
) -> tuple[_Tuned, _Watch]:
    torch.manual_seed(0)
    module, watch = _Tuned(), _Watch(watched)
    collector = SummaryCollector(
        folder, collect_freq=1, collect_specified_data={"histogram_regular": ".*"}, **options
    )
    trainer = Trainer(
        max_epochs=epochs, callbacks=[*callbacks, watch, collector], logger=False,
        accelerator="cpu", devices=1,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(module, DataLoader(TensorDataset(torch.randn(8, 4)), 8))
    return module, watch


def _histograms(folder: Path, tag: str) -> dict[int, Any]:
    return {step: value for step, _, value in SummaryReader(folder).histograms(tag)}


def test_after_pruning_in_a_training_the_histogram_is_that_of_the_pruned_weight(
    tmp_path: Path,
) -> None:
    pruning = ModelPruning("l1_unstructured", parameter_names=["weight"], amount=0.5, verbose=0)
    _, watch = _fit(tmp_path, 3, "backbone.weight", pruning)

    recorded = _histograms(tmp_path, "backbone.weight/auto")
    assert sorted(recorded) == [1, 2, 3]
    for step, weight in enumerate(watch.seen, 1):
        np.testing.assert_array_equal(recorded[step].counts, to_histogram(weight).counts)
    assert int((watch.seen[-1] == 0).sum()) > 0


def test_parameters_that_join_the_optimizer_have_histograms_and_gradients_from_then_on(
    tmp_path: Path,
) -> None:
    class FromEpochTwo(BackboneFinetuning):
        def __init__(self) -> None:
            super().__init__(unfreeze_backbone_at_epoch=2, backbone_initial_ratio_lr=0.5)

    _fit(tmp_path, 4, "head.weight", FromEpochTwo(), collect_gradients=True)

    assert sorted(_histograms(tmp_path, "head.weight/auto")) == [1, 2, 3, 4]
    assert sorted(_histograms(tmp_path, "backbone.weight/auto")) == [3, 4]
    assert sorted(_histograms(tmp_path, "backbone.bias.gradient")) == [3, 4]


def test_steps_that_are_not_collected_ask_for_no_parameter() -> None:
    asked = 0

    def parameters() -> list[NamedParameter]:
        nonlocal asked
        asked += 1
        return []

    optimizer = torch.optim.SGD(_net().parameters(), lr=0.1)
    collector = StepCollector(CollectOptions(), Schedule(10), [], True, 0, is_rank_zero=True)
    for _ in range(20):
        collector.begin_batch(parameters)
        collector.take_gradients(optimizer, lambda: None)
        collector.end_batch(lambda: None, True, None)

    assert asked == 3  # steps 1, 10 and 20
