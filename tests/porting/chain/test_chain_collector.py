"""The rows of a step against what a plain loop keeps of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint

from mindsummary_lightning.collection.step_values import StepValues
from mindsummary_lightning.porting.chain.chain_collector import ChainCollector
from mindsummary_lightning.values.step_chain import (
    COLUMNS,
    OUTPUT_STATISTICS_TAG,
    OutputRow,
    sample_places,
)

SETTINGS = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")  # of SGD
X, Y = (
    torch.randn(6, 4, generator=torch.Generator().manual_seed(1)),
    torch.tensor([0, 1, 2, 0, 1, 2]),
)


def recorded(
    net: nn.Module,
    loss_of: Callable[[Any], Tensor],
    batch: Any = (X, Y),
    modules: str | None = None,
    **settings: Any,
) -> list[tuple[OutputRow, dict[str, float]]]:
    """The rows of one step with SGD, in their order, each with its columns."""
    chain = ChainCollector(modules=modules)
    held = {"params": [*net.parameters()], "lr": 0.5}
    optimizer = torch.optim.SGD(**{**held, **settings})
    chain.begin(net)
    chain.call(batch, loss_of, (batch,), {}).backward()
    chain.add_gradients(optimizer, 0, None)
    optimizer.step()
    values = StepValues()
    chain.move_into(values)
    pairs = values.drain()
    assert values.problems == []
    ((tag, table),) = chain.finish(pairs)
    assert tag == OUTPUT_STATISTICS_TAG
    order = np.argsort(table.data[:, 0])  # type: ignore[union-attr]
    return [
        (chain.rows[row], dict(zip(COLUMNS, table.data[row].tolist(), strict=True)))
        for row in order
    ]  # type: ignore[union-attr]


def classifier(net: nn.Module) -> Callable[[Any], Tensor]:
    return lambda batch: cross_entropy(net(batch[0]), batch[1])


def plain_columns(tensor: Tensor) -> list[float]:
    flat = tensor.detach().double().numpy().reshape(-1)
    finite = flat[np.isfinite(flat)]
    return [
        flat.size,
        np.sqrt((finite**2).mean()),
        finite.mean(),
        finite.min(),
        finite.max(),
        (finite == 0).mean(),
        flat.size - finite.size,
        *flat[sample_places(flat.size)],
    ]


def test_the_rows_of_a_step_are_those_of_a_plain_loop() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(inplace=True))
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    given: dict[str, Tensor] = {}
    for name, part in net.named_modules():  # clones: the last works in place
        part.register_forward_pre_hook(
            lambda _, args, name=name: given.update({f"{name} input": args[0].clone()})
        )
        part.register_forward_hook(
            lambda _, __, output, name=name: given.update({f"{name} output": output.clone()})
        )
    rows = recorded(net, classifier(net))

    gradients = {name: parameter.grad for name, parameter in net.named_parameters()}
    expected = [
        *((("weights", name, ""), tensor) for name, tensor in before.items()),
        (("data", "0", ""), X),
        (("data", "1", ""), Y),
        *(
            (("forward", name, port), given[f"{name} {port}"])
            for name in "012"
            for port in ("input", "output")
        ),
        *((("forward", "", port), given[f" {port}"]) for port in ("input", "output")),
        (("loss", "", ""), None),
        *((("gradients", name, "gradient"), gradient) for name, gradient in gradients.items()),
        *((("settings", "group 0", name), None) for name in SETTINGS),
        *((("update", name, ""), tensor) for name, tensor in net.state_dict().items()),
    ]
    assert [(row.link, row.name, row.port) for row, _ in rows] == [key for key, _ in expected]
    assert [columns["order"] for _, columns in rows] == [*range(len(rows))]
    for (row, columns), (_, tensor) in zip(rows, expected, strict=True):
        if tensor is not None:
            assert (row.shape, row.dtype) == (
                tuple(tensor.shape),
                str(tensor.dtype).removeprefix("torch."),
            )
            np.testing.assert_allclose(
                [*columns.values()][1:], plain_columns(tensor), rtol=1e-6, atol=1e-7
            )
    values = {(row.link, row.port): columns["mean"] for row, columns in rows}
    assert values["settings", "lr"] == 0.5
    assert {row.kind for row, _ in rows if row.link == "forward"} == {
        "Linear",
        "BatchNorm1d",
        "ReLU",
        "Sequential",
    }


@dataclass
class Answer:
    scores: Tensor
    hidden: tuple[Tensor, ...]


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, batch: dict[str, Any], scale: Tensor) -> Answer:
        hidden = self.layer(batch["x"])
        return Answer(self.layer(batch["x"]) * scale, (hidden, hidden))


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        packed = pack_padded_sequence(x.reshape(3, 2, 4), torch.tensor([2, 2, 1]), batch_first=True)
        return self.lstm(packed)[1][0][0].repeat(2, 1)


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.layer, self.reentrant = nn.Linear(4, 3), reentrant

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.layer, x, use_reentrant=self.reentrant)


def test_a_weight_that_no_optimizer_holds_has_a_gradient_and_a_frozen_one_has_none() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3))
    net[1].requires_grad_(False)

    rows = [row for row, _ in recorded(net, classifier(net), params=[*net[0].parameters()])]

    assert {row.name for row in rows if row.link == "gradients"} == {
        "0.weight",
        "0.bias",
        "2.weight",
        "2.bias",
    }


def test_the_gradient_of_a_sparse_embedding_has_a_row_of_all_its_elements() -> None:
    nets = [nn.Sequential(nn.Embedding(5, 3, sparse=is_sparse)) for is_sparse in (True, False)]
    nets[1].load_state_dict(nets[0].state_dict())
    found = [
        [
            columns
            for row, columns in recorded(net, classifier(net), (Y, Y))
            if row.link == "gradients"
        ]
        for net in nets
    ]

    assert found[0] == [{**found[1][0], "order": found[0][0]["order"]}]
    assert found[0][0]["elements"] == 15


def test_a_shared_module_has_a_row_a_call_and_nested_values_their_paths() -> None:
    net = Nested()
    rows = recorded(
        net, lambda batch: net(batch, torch.tensor(2.0)).scores.sum(), {"x": X, "more": [Y]}
    )

    places = [(row.link, row.name, row.call, row.port, row.path) for row, _ in rows]
    assert [place for place in places if place[0] == "data"] == [
        ("data", "x", 0, "", ""),
        ("data", "more.0", 0, "", ""),
    ]
    assert [place[1:] for place in places if place[0] == "forward"] == [
        *[("layer", call, port, "") for call in (0, 1) for port in ("input", "output")],
        ("", 0, "input", "0.x"),
        ("", 0, "input", "0.more.0"),
        ("", 0, "input", "1"),
        ("", 0, "output", "scores"),
        ("", 0, "output", "hidden.0"),
        ("", 0, "output", "hidden.1"),
    ]


@pytest.mark.parametrize(
    "dtype",
    [torch.float8_e4m3fn, torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.bool],
)
def test_a_tensor_of_any_dtype_has_the_numbers_of_a_plain_loop(dtype: torch.dtype) -> None:
    class Cast(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.detach().to(dtype)

    rows = recorded(
        net := nn.ModuleDict({"a": nn.Linear(4, 3), "b": Cast()}), lambda batch: _both(net, batch)
    )

    ((_, found),) = [row for row in rows if (row[0].name, row[0].port) == ("b", "output")]
    np.testing.assert_allclose(
        [*found.values()][1:], plain_columns(X.to(dtype)), rtol=1e-6, atol=1e-7
    )


def _both(net: nn.ModuleDict, batch: Any) -> Tensor:
    net["b"](batch[0])
    return cross_entropy(net["a"](batch[0]), batch[1])


def test_a_packed_sequence_has_rows_of_its_parts() -> None:
    net = Packed()
    rows = recorded(net, classifier(net))

    paths = [(row.port, row.path) for row, _ in rows if row.name == "lstm"]
    assert paths[:2] == [("input", "0.data"), ("input", "0.batch_sizes")]
    assert ("output", "1.0") in paths


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_is_computed_again_for_the_gradients_has_no_rows(reentrant: bool) -> None:
    net = Checkpointed(reentrant)
    x = X.clone().requires_grad_()
    rows = recorded(net, classifier(net), (x, Y))

    assert [row.call for row, _ in rows if row.name == "layer"] == [0, 0]


def test_a_row_has_the_line_of_the_users_call() -> None:
    net = nn.Sequential(nn.Linear(4, 3))
    rows = recorded(net, classifier(net))

    number = classifier.__code__.co_firstlineno + 1
    assert {row.line for row, _ in rows if row.link == "forward"} == {
        f"tests/porting/chain/test_chain_collector.py:{number}"
    }


def test_an_expression_chooses_modules_from_the_start_of_their_names() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 3)))
    rows = recorded(net, classifier(net), modules=r"1\.")

    assert {row.name for row, _ in rows if row.link == "forward"} == {"1.0"}
