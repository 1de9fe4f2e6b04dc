"""The chains of two runs' steps: the first link that parts is named, and right ports are the same.

The steps here are computed by NumPy: two linear layers with an activation between them, a loss, and
plain descent. Names, classes and the shape of modules differ between the two runs, as between
frameworks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mindsummary_lightning import StepRecorder, SummaryRecord, compare_runs
from mindsummary_lightning.fileformat.output_rows import OUTPUT_ROWS_FILE, encode_output_rows
from mindsummary_lightning.values.step_chain import (
    COLUMNS,
    OUTPUT_STATISTICS_TAG,
    OutputRow,
    sample_places,
)

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class ChainWriter:
    """Writes rows of tensors as a recorder would."""

    directory: Path
    rows: dict[OutputRow, Array] = field(default_factory=dict)

    def add(
        self, tensor: Array | float, link: Any, name: str, dtype: str = "float32", **described: Any
    ) -> None:
        flat = np.asarray(tensor, np.float64).ravel()
        finite = flat[np.isfinite(flat)] if np.isfinite(flat).any() else np.full(1, np.nan)
        zeros, bad = (finite == 0).mean(), (~np.isfinite(flat)).sum()
        averages = np.sqrt((finite**2).mean()), finite.mean(), finite.min(), finite.max()
        row = OutputRow(link, name, dtype=dtype, shape=np.shape(tensor), **described)
        numbers = [
            len(self.rows),
            flat.size,
            *averages,
            zeros,
            bad,
            *flat[sample_places(flat.size)],
        ]
        self.rows[row] = np.array(numbers, np.float32)

    def write(self, step: int, record: SummaryRecord, loss: float, is_told: bool) -> None:
        assert all(len(numbers) == len(COLUMNS) for numbers in self.rows.values())
        record.add_value("tensor", OUTPUT_STATISTICS_TAG, np.stack([*self.rows.values()]))
        if is_told:
            record.add_value("scalar", "loss/auto", loss)
        record.record(step)
        (self.directory / OUTPUT_ROWS_FILE).write_bytes(encode_output_rows([*self.rows]))
        self.rows.clear()


@dataclass
class Style:
    """How a framework names and builds the two layers."""

    layers: tuple[str, str]
    kinds: tuple[str, str]
    activation: str | None
    block: str
    word: str = "weight"


ORIGINAL = Style(("net.dense1", "net.dense2"), ("Dense", "MLPCell"), "net.relu", "net")
PORT = Style(("body.0", "body.2"), ("Linear", "Sequential"), None, "body")
Change = Mapping[str, Callable[[Array], Array]]


def train(directory: Path, style: Style, changes: Change | None = None, steps: int = 3) -> Path:
    """Train; ``changes`` are applied to what they name: a mistake of the port."""
    changes = changes or {}
    random = np.random.default_rng(4)
    weights = [random.normal(size=(8, 8)), random.normal(size=(8, 8))]

    def changed(name: str, tensor: Array) -> Array:
        return changes[name](tensor) if name in changes else tensor

    weights = [changed(f"weights{at}", weight) for at, weight in enumerate(weights)][
        :: -1 if "exchanged" in changes else 1
    ]
    directory.mkdir()
    writer = ChainWriter(directory)
    with SummaryRecord(directory) as record:
        for step in range(1, steps + 1):
            batch = changed("batch", random.normal(size=(6, 8)))
            writer.add(batch, "data", "0")
            if "labels" in changes:
                writer.add(changed("labels", np.arange(6.0)), "data", "1")
            for name, weight in zip(style.layers, weights, strict=True):
                writer.add(
                    changed("stored", weight), "weights", f"{name}.{style.word}", kind="parameter"
                )
            means = [changed("mean", np.zeros(8)), np.zeros(8)] if "mean" in changes else []
            for name, mean in zip(style.layers, means, strict=False):
                writer.add(np.zeros(8), "weights", f"{name}.running_mean", kind="buffer")
                writer.add(mean, "update", f"{name}.running_mean", kind="buffer")
            hidden = changed("hidden", batch @ weights[0].T)
            active = changed("active", np.maximum(hidden, 0))
            out = changed("out", active @ weights[1].T)
            if "no calls" not in changes:  # as in a mode of graphs
                _calls(writer, style, batch, hidden, active, out, changed)
            loss = float(changed("loss", np.array((out**2).mean())))
            if "criterion" in changes:  # a module that is the loss function
                writer.add(out, "forward", "criterion", kind="Loss", port="input", line="Loss.py:7")
                writer.add(
                    loss, "forward", "criterion", kind="Loss", port="output", line="Loss.py:7"
                )
            if "no loss" not in changes:
                writer.add(loss, "loss", "loss")
            if "two losses" in changes:
                writer.add(loss + 1, "loss", "loss", call=1)
            slope = 2 * out / out.size
            gradients = [((slope @ weights[1]) * (hidden > 0)).T @ batch, slope.T @ active]
            gradients = [
                changed(f"gradient{at}", gradient) for at, gradient in enumerate(gradients)
            ]
            for at, (name, gradient) in enumerate(zip(style.layers, gradients, strict=True)):
                if f"frozen{at}" in changes:
                    gradients[at] = gradient * 0
                if f"frozen{at}" in changes or "no gradients" in changes:
                    continue
                clipped = changed("clip", gradient)
                links = (
                    {"gradients": gradient, "clipped": clipped}
                    if "both" in changes
                    else {"gradients": clipped}
                )
                for link, recorded in links.items():
                    stored = changed("stored", recorded)
                    writer.add(
                        stored, link, f"{name}.{style.word}", kind="parameter", port="gradient"
                    )
                gradients[at] = clipped
            rate = float(changed("rate", np.array(0.1)))
            for group, of_group in enumerate([rate, *changed("more rates", np.array([]))]):
                writer.add(of_group, "settings", f"group {group}", port="lr")
            weights = [
                changed(f"after{at}", weight - rate * gradient)
                for at, (weight, gradient) in enumerate(zip(weights, gradients, strict=True))
            ]
            for name, weight in zip(style.layers, weights, strict=True):
                writer.add(
                    changed("stored", weight), "update", f"{name}.{style.word}", kind="parameter"
                )
            if "drawn" in changes:  # as a collector draws its first weights
                name = f"{style.layers[0]}.{style.word}"
                record.add_value("histogram", f"{name}/auto", weights[0].astype(np.float32))
            if "logged" in changes:  # by the script, which counts from zero
                record.add_value("scalar", "train_loss", loss)
                record.record(step - 1)
            writer.write(
                step, record, float(changed("told", np.array(loss))), "logged" not in changes
            )
            weights = [changed(f"between{at}", weight) for at, weight in enumerate(weights)]
    return directory


def _calls(
    writer: ChainWriter,
    style: Style,
    batch: Array,
    hidden: Array,
    active: Array,
    out: Array,
    changed: Callable[[str, Array], Array],
) -> None:
    last = (
        style.layers[1],
        style.kinds[0],
        changed("last input", active),
        changed("last output", out),
    )
    calls = [(style.layers[0], style.kinds[0], batch, hidden), last]
    if style.activation:
        name, kind = style.activation, "Identity" if style.activation.endswith("same") else "ReLU"
        calls.insert(1, (name, kind, hidden, hidden if kind == "Identity" else active))
    for name, kind, given, result in [*calls, (style.block, style.kinds[1], batch, out)]:
        writer.add(given, "forward", name, kind=kind, port="input", line=f"{kind}.py:7")
        if name == style.layers[1]:
            mask = changed("mask", np.arange(6) % 2)
            writer.add(
                mask,
                "forward",
                name,
                "bool",
                kind=kind,
                port="input",
                path="mask",
                line=f"{kind}.py:7",
            )
        writer.add(result, "forward", name, kind=kind, port="output", line=f"{kind}.py:7")


MISTAKES: dict[str, tuple[Change, str, str]] = {
    "a batch turned over": ({"batch": lambda x: x[:, ::-1]}, "data", "0"),
    "a batch that is scaled": ({"batch": lambda x: x * 1.001}, "data", "0"),
    "a batch of fewer samples": ({"batch": lambda x: x[:4]}, "data", "0"),
    "a module behind a mask": (
        {"out": lambda x: x * 1.1, "mask": lambda x: 1 - x},
        "forward",
        "net.dense2 = body.2",
    ),
    "a weight of another start": ({"weights1": lambda x: x + 0.01}, "weights", "net.dense2.weight"),
    "a weight turned over": ({"weights0": lambda x: x[:, ::-1]}, "weights", "net.dense1.weight"),
    "two exchanged layers, of which no name tells": (
        {"exchanged": lambda x: x},
        "forward",
        "net = body",
    ),
    "a batch, beside weights that are rounded": (
        {"batch": lambda x: x * 1.1, "weights1": lambda x: x * (1 + 2e-7)},
        "data",
        "0",
    ),
    "a batch, and a weight": (
        {"batch": lambda x: x * 1.1, "weights0": lambda x: x + 0.01},
        "data",
        "0",
    ),
    "a layer": ({"hidden": lambda x: x * (1 + 1e-5)}, "forward", "net.dense1 = body.0"),
    "an activation": ({"active": lambda x: x + 0.01}, "forward", "net.relu = body"),
    "the last layer": ({"out": lambda x: x[::-1].copy()}, "forward", "net.dense2 = body.2"),
    "the loss": ({"loss": lambda x: x * 24}, "loss", "loss"),
    "a gradient": ({"gradient0": lambda x: x * 1.1}, "gradients", "net.dense1.weight"),
    "a frozen weight": ({"frozen1": lambda x: x}, "gradients", "net.dense2.weight"),
    "an update": ({"after0": lambda x: x * 0.99}, "update", "net.dense1.weight"),
    "a learning rate": ({"rate": lambda x: x * 1.01}, "update", "net.dense1.weight"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_at_the_first_stage_that_it_changes(
    mistake: str, tmp_path: Path
) -> None:
    changes, kind, name = MISTAKES[mistake]
    comparison = compare_runs(train(tmp_path / "a", ORIGINAL), train(tmp_path / "b", PORT, changes))

    first = comparison.first_difference
    assert first is not None, comparison.sentence
    place = first.location
    named = (
        [f"{place.baseline} = {place.candidate}"]
        if place
        else [tensor.baseline for tensor in first.tensors]
    )
    assert (first.step, first.stage) == (1, kind)
    assert name in named
    assert comparison.to_dict()["first_difference"]["stage"] == kind
    assert str(comparison).startswith("different: from step 1, first in the ")
    lines = str(comparison).splitlines()
    (diverging,) = [line.split()[0] for line in lines if line.endswith("diverges first")]
    assert diverging == kind
    also = [line.split()[0] for line in lines if line.endswith("also differs")]
    assert also == []
    is_frozen = "frozen1" in changes
    only = "only the baseline has gradients of net.dense2.weight = body.2.weight"
    assert (only in comparison.sentence) == is_frozen
    turned = compare_runs(tmp_path / "b", tmp_path / "a").sentence
    assert ("only the candidate has gradients of body.2.weight" in turned) == is_frozen
    assert ("  only in the baseline: net.dense2.weight [8, 8] = " in str(comparison)) == is_frozen


OTHERWISE: dict[str, tuple[Change, Change]] = {  # changes of both runs
    "labels that are indices in one": ({"labels": lambda x: x}, {"labels": lambda x: np.eye(6)}),
    "a tensor of the batch in one alone": ({"labels": lambda x: np.outer(x, np.ones(8))}, {}),
    "weights that both change between steps": (
        {"between0": lambda x: x + 0.01}, {"between0": lambda x: x + 0.0100001}
    ),
    "a layer that rounds as its weights do": (
        {}, {"weights0": lambda x: x * (1 + 9e-7), "hidden": lambda x: x * (1 + 5e-6)}
    ),
    "more groups of one rate": (
        {"more rates": lambda x: [0.2]}, {"more rates": lambda x: [0.2, 0.3]}
    ),
    "weights that are stored in another order": (
        {"no gradients": lambda x: x},
        {"no gradients": lambda x: x, "stored": lambda x: x.T.reshape(4, 16)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERWISE)
def test_what_a_right_port_may_do_otherwise_is_no_difference(what: str, tmp_path: Path) -> None:
    ones, others = OTHERWISE[what]
    comparison = compare_runs(
        train(tmp_path / "a", ORIGINAL, ones), train(tmp_path / "b", PORT, others)
    )

    assert (comparison.verdict, comparison.first_difference) == ("same", None), comparison.sentence


def test_a_module_that_is_the_loss_function_is_not_of_the_forward_pass(tmp_path: Path) -> None:
    modules: Change = {"criterion": lambda x: x}
    a, b = (
        train(tmp_path / "a", ORIGINAL, modules),
        train(tmp_path / "b", PORT, {**modules, "loss": lambda x: x * 1.1}),
    )
    first = compare_runs(a, b).first_difference

    assert first is not None
    assert first.stage == "loss"


def test_a_run_without_losses_or_gradients_is_compared_by_the_rest(tmp_path: Path) -> None:
    none: Change = {"no loss": lambda x: x, "no gradients": lambda x: x}
    original = train(tmp_path / "a", ORIGINAL, none)
    turned = train(tmp_path / "turned", PORT, {**none, "weights0": lambda x: x[:, ::-1]})
    faster = train(tmp_path / "faster", PORT, {"rate": lambda x: x * 1.1})
    moved = train(
        tmp_path / "moved", PORT, {"weights0": lambda x: x + 0.01, "weights1": lambda x: x + 0.1}
    )
    first = [compare_runs(original, other).first_difference for other in (turned, faster, moved)]

    assert [one and one.stage for one in first] == ["weights", "update", "weights"]
    assert [tensor.baseline for tensor in first[2].tensors] == [
        "net.dense2.weight",
        "net.dense1.weight",
    ]  # type: ignore[union-attr]


@pytest.mark.parametrize("word", ["weight", "table"])
def test_a_right_port_is_the_same_whatever_its_modules_and_weights_are_called(
    word: str, tmp_path: Path
) -> None:
    comparison = compare_runs(
        train(tmp_path / "a", ORIGINAL), train(tmp_path / "b", replace(PORT, word=word))
    )

    assert (comparison.verdict, comparison.first_difference, comparison.whole_tensors) == (
        "same",
        None,
        {},
    )
    statistics = comparison.output_statistics
    assert statistics is not None
    assert (statistics.steps, statistics.judged_step) == ([1, 2, 3], 1)
    assert [stage.compared for stage in statistics.shown.table.summaries()] == [1, 2, 3, 1, 2, 2]


def test_running_means_that_begin_alike_are_those_of_layers_with_the_same_weights(
    tmp_path: Path,
) -> None:
    a = train(tmp_path / "a", ORIGINAL, {"mean": lambda x: x + 1})
    b = train(tmp_path / "b", PORT, {"mean": lambda x: x + 2})

    first = compare_runs(a, b).first_difference
    assert first is not None
    assert (first.stage, first.tensors[0].baseline) == ("update", "net.dense1.running_mean")


def _clipped(both: bool = False, to: float = 1e-3) -> Change:
    return {
        "clip": lambda x: x * (to / np.sqrt((x**2).sum())),
        **({"both": lambda x: x} if both else {}),
    }


@pytest.mark.parametrize(
    ("original", "port", "kind"),
    [
        # a loop records what it clipped, Lightning what it was before, too
        (_clipped(), _clipped(both=True), None),
        ({}, _clipped(both=True), "update"),
        (_clipped(), _clipped(both=True, to=2e-3), "gradients"),
        (
            _clipped(both=True),
            {**_clipped(both=True), **dict.fromkeys(("gradient0", "gradient1"), lambda x: x * 2)},
            "gradients",
        ),
    ],
)
def test_gradients_are_compared_before_or_after_clipping(
    original: Change, port: Change, kind: str | None, tmp_path: Path
) -> None:
    comparison = compare_runs(
        train(tmp_path / "a", ORIGINAL, original), train(tmp_path / "b", PORT, port)
    )

    first = comparison.first_difference
    assert (first and first.stage) == kind, comparison.sentence
    assert ("; norm of the gradients that are applied is" in comparison.sentence) is (
        kind == "update"
    )


RIGHT: dict[str, tuple[Style, Change]] = {
    "modules in one run alone": (PORT, {"no calls": lambda x: x}),
    "a mask of what to leave out": (PORT, {"mask": lambda x: 1 - x}),
    "a histogram in one run alone, of a weight that the chains of both have": (
        PORT,
        {"drawn": lambda x: x},
    ),
    "one layer of two, whose input is half": (
        PORT,
        {"last input": lambda x: x[:, ::2], "last output": lambda x: x * 0.5},
    ),
    "an identity where the other has an activation, which is a function": (
        replace(PORT, activation="body.same"),
        {},
    ),
}


@pytest.mark.parametrize("how", RIGHT)
def test_a_right_port_is_the_same_however_it_is_written(how: str, tmp_path: Path) -> None:
    style, changes = RIGHT[how]
    comparison = compare_runs(
        train(tmp_path / "a", ORIGINAL), train(tmp_path / "b", style, changes)
    )

    assert comparison.verdict == "same", comparison.sentence
    assert (comparison.only_in_baseline.tensors, comparison.only_in_candidate.tensors) == ((), ())


def test_runs_without_calls_are_compared_by_the_other_links(tmp_path: Path) -> None:
    none: Change = {"no calls": lambda x: x}
    a = train(tmp_path / "a", ORIGINAL, none)

    assert compare_runs(a, train(tmp_path / "right", PORT, none)).verdict == "same"
    first = compare_runs(
        a, train(tmp_path / "wrong", PORT, {**none, "out": lambda x: x * 1.1})
    ).first_difference
    assert first is not None
    assert (first.stage, first.location) == ("forward", None)
    alone = compare_runs(train(tmp_path / "called", ORIGINAL), tmp_path / "wrong")
    assert re.search(r"loss +1 +0 +1.7e-01 +diverges first", str(alone))
    assert "outputs could not be compared" in alone._repr_html_()


def test_the_setting_that_differs_is_named_with_the_update(tmp_path: Path) -> None:
    changes = MISTAKES["a learning rate"][0]
    comparison = compare_runs(train(tmp_path / "a", ORIGINAL), train(tmp_path / "b", PORT, changes))

    assert comparison.to_dict()["first_difference"]["settings"] == {
        "lr": {"baseline": [pytest.approx(0.1)], "candidate": [pytest.approx(0.101)]}
    }
    assert "lr is 0.1 in the baseline and 0.101 in the candidate" in comparison.sentence


def _record_step(
    run_dir: Path,
    net: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    x: torch.Tensor,
    scale: float = 1,
) -> None:
    """Record a step of a plain loop, whose network gets the batch times ``scale``."""
    with StepRecorder(run_dir).step(net, optimizer, x) as loss_is:
        loss_is(loss := net(x * scale).square().mean())
        loss.backward()
        optimizer.step()


def test_groups_that_only_are_more_in_one_run_are_no_setting_that_differs(tmp_path: Path) -> None:
    for run, halves in (("a", 1), ("b", 2)):
        torch.manual_seed(0)
        net = torch.nn.Linear(8, 8)
        groups = (
            [{"params": [*net.parameters()]}]
            if halves == 1
            else [{"params": [x]} for x in net.parameters()]
        )
        optimizer, x = (
            torch.optim.SGD(groups, 0.1, momentum=halves / 4, nesterov=True),
            torch.ones(4, 8),
        )
        _record_step(tmp_path / run, net, optimizer, x)

    first = compare_runs(tmp_path / "a", tmp_path / "b").first_difference
    assert first is not None
    assert first.settings == (("momentum", [0.25], [0.5, 0.5]),)


def test_what_differs_before_the_network_is_not_said_of_its_code(tmp_path: Path) -> None:
    for run, scale in (("a", 1.0), ("b", 1.1)):
        torch.manual_seed(0)
        net, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), torch.randn(4, 8)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        _record_step(tmp_path / run, net, optimizer, x, scale)

    comparison = compare_runs(tmp_path / "a", tmp_path / "b")
    assert (
        "in the training step, outside of the modules that are compared: the input of 0 differs by"
        in str(comparison)
    )


class _Same(torch.nn.Module):
    """An activation that several modules apply to one tensor; a port leaves out the first."""

    def __init__(self, is_right: bool) -> None:
        super().__init__()
        self.is_right, self.act, self.linear = is_right, torch.nn.SiLU(), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x * self.linear(self.act(given) if self.is_right else given)
        return out


class _Conditioned(torch.nn.Module):
    def __init__(self, is_right: bool) -> None:
        super().__init__()
        self.first, self.second, self.third = _Same(is_right), _Same(True), _Same(True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.third(self.second(self.first(x, x), x), x)
        return out


def test_what_finishes_behind_a_difference_has_not_made_it(tmp_path: Path) -> None:
    for run in ("a", "b"):
        torch.manual_seed(0)
        net, x = _Conditioned(run == "a"), torch.randn(4, 8)
        _record_step(tmp_path / run, net, torch.optim.SGD(net.parameters(), 0.1), x)

    first = compare_runs(tmp_path / "a", tmp_path / "b").first_difference
    assert first is not None
    assert first.location is not None
    assert (first.location.baseline, first.location.candidate) == ("first", "first")


def test_what_differs_between_two_modules_of_a_step_is_said_of_neither(tmp_path: Path) -> None:
    for run, scale in (("a", 1.0), ("b", 1.1)):
        torch.manual_seed(0)
        parts, x = (
            torch.nn.ModuleList([torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)]),
            torch.randn(4, 8),
        )
        with StepRecorder(tmp_path / run).step(
            parts, torch.optim.SGD(parts.parameters()), x
        ) as loss_is:
            loss_is(parts[1](parts[0](x) * scale).square().mean())

    first = compare_runs(tmp_path / "a", tmp_path / "b").first_difference
    assert first is not None
    assert first.location is not None
    assert first.location[:4] == ("", "", "training step", "training step")


def test_steps_without_a_loss_are_compared(tmp_path: Path) -> None:
    for run, scale in (("a", 1.0), ("b", 1.0), ("c", 1.1)):
        torch.manual_seed(0)
        net, x = torch.nn.Linear(8, 8), torch.randn(4, 8)
        with StepRecorder(tmp_path / run).step(net, torch.optim.SGD(net.parameters()), x):
            net(x * scale)

    same, other = (compare_runs(tmp_path / "a", tmp_path / run) for run in "bc")
    assert str(same).startswith("same: all stages of the recorded steps agree (tolerance float32)")
    assert other.first_difference is not None
    assert other.first_difference.stage == "forward"


LOGGED: Change = {"logged": lambda x: x}


def test_a_loss_that_is_counted_from_zero_hides_no_difference_of_the_chain(tmp_path: Path) -> None:
    a = train(tmp_path / "a", ORIGINAL, LOGGED)
    changes = {
        "weights": {"weights1": lambda x: x + 0.01},
        "forward": {"active": lambda x: x + 0.01},
    }
    for kind, change in changes.items():
        first = compare_runs(a, train(tmp_path / kind, PORT, {**LOGGED, **change})).first_difference
        assert first is not None
        assert (first.step, first.stage, first.last_equal_step) == (1, kind, None)


def test_distances_are_said_as_they_are_where_chains_agree(tmp_path: Path) -> None:
    told: Change = {"told": lambda x: x * 1.01}
    a, seen = (
        train(tmp_path / "a", ORIGINAL),
        compare_runs(tmp_path / "a", train(tmp_path / "seen", PORT, told)),
    )

    assert seen.verdict == "same"
    assert str(seen).startswith("same: losses differ by at most 9.9e-03")
    assert "in the steps that exceed it, the output statistics agree" in seen.sentence
    assert seen.largest.loss == pytest.approx(0.01 / 1.01, rel=1e-3)
    unseen = train(tmp_path / "unseen", PORT, {**told, "no calls": lambda x: x})
    assert compare_runs(a, unseen).verdict == "different"


def test_without_outputs_a_loss_that_follows_from_weights_is_no_forward_pass(
    tmp_path: Path,
) -> None:
    none: Change = {"no calls": lambda x: x}
    moved: Change = {**none, "after1": lambda x: x * (1 + 1e-5)}
    first = compare_runs(
        train(tmp_path / "a", ORIGINAL, none), train(tmp_path / "b", PORT, moved)
    ).first_difference

    assert first is not None
    assert (first.step, first.stage) == (2, None)


def test_weights_that_have_drifted_beside_another_batch_are_not_said_to_differ(
    tmp_path: Path,
) -> None:
    steps = iter(range(3))
    changes: Change = {
        "batch": lambda x: x * (1.1 if next(steps) else 1),
        "after1": lambda x: x * (1 + 1e-5),
    }
    comparison = compare_runs(train(tmp_path / "a", ORIGINAL), train(tmp_path / "b", PORT, changes))

    first = comparison.first_difference
    assert first is not None
    assert (first.step, first.stage) == (2, "data")
    lines = str(comparison).splitlines()
    assert [line.split()[0] for line in lines if "also differs" in line] == []


def test_weights_that_are_apart_as_a_later_step_begins_did_not_begin_so(tmp_path: Path) -> None:
    for run, rate in (("a", 0.1), ("b", 0.2), ("nearly a", 0.1001)):
        torch.manual_seed(0)
        net, recorder = torch.nn.Linear(8, 8), StepRecorder(tmp_path / run, (2,))
        optimizer = torch.optim.SGD(net.parameters(), rate)
        for x in torch.ones(2, 4, 8):
            with recorder.step(net, optimizer, x) as loss_is:
                loss_is(loss := net(x).square().mean() + 100)
                loss.backward()
                optimizer.step()

    for run in ("b", "nearly a"):
        comparison = compare_runs(tmp_path / "a", tmp_path / run)
        assert comparison.output_statistics is not None
        assert comparison.output_statistics.judged_step is None
        assert comparison.first_difference is None or comparison.first_difference.stage is None
    assert (comparison.verdict, comparison.doubt) == ("undecided", "different start")
    assert comparison.sentence.endswith("the cause of the different weights was not recorded")


def test_how_many_losses_a_step_has_is_said_with_its_gradients(tmp_path: Path) -> None:
    changes: Change = {"two losses": lambda x: x, "gradient0": lambda x: x * 1.1}
    comparison = compare_runs(train(tmp_path / "a", ORIGINAL), train(tmp_path / "b", PORT, changes))

    assert "in the gradients: everything computed before them agrees" in comparison.sentence
    assert comparison.sentence.endswith(
        "; number of losses is 1 in the baseline and 2 in the candidate"
    )


def test_how_many_losses_a_step_has_is_said_with_a_loss_that_is_of_a_part_of_the_batch(
    tmp_path: Path,
) -> None:
    changes: Change = {"two losses": lambda x: x, "loss": lambda x: x / 2}
    comparison = compare_runs(train(tmp_path / "a", ORIGINAL), train(tmp_path / "b", PORT, changes))

    assert "first in the loss: all compared outputs agree" in comparison.sentence
    assert comparison.sentence.endswith(
        "; number of losses is 1 in the baseline and 2 in the candidate"
    )


_CROSSED = {"net.dense1.weight": "body.2.weight", "net.dense2.weight": "body.0.weight"}


def test_a_map_decides_which_weights_of_a_chain_are_one(tmp_path: Path) -> None:
    a, b = train(tmp_path / "a", ORIGINAL), train(tmp_path / "b", PORT)

    first = compare_runs(a, b, names=_CROSSED).first_difference
    assert first is not None
    assert (first.stage, {(tensor.baseline, tensor.candidate) for tensor in first.tensors}) == (
        "weights",
        {*_CROSSED.items()},
    )
    assert (
        compare_runs(
            a, b, names=dict(zip(_CROSSED, reversed(_CROSSED.values()), strict=True))
        ).verdict
        == "same"
    )


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"z": "body.0.weight"}, "the baseline has no tensor 'z'; it has net.dense1.weight"),
        ({"net.dense1.weight": "z"}, "candidate has no"),
        (dict.fromkeys(_CROSSED, "body.0.weight"), "a single partner"),
        (
            {"net.dense1.weight": "body.0.running_mean"},
            "got 64 in 'net.dense1.weight' and 8 in 'body.0.running_mean'",
        ),
    ],
)
def test_a_map_that_does_not_fit_is_refused(
    given: dict[str, str], reason: str, tmp_path: Path
) -> None:
    a, b = train(tmp_path / "a", ORIGINAL), train(tmp_path / "b", PORT, {"mean": lambda x: x})

    with pytest.raises(ValueError, match=reason):
        compare_runs(a, b, names=given)


def test_a_batch_of_shorter_sequences_is_another_batch(tmp_path: Path) -> None:
    for run, length in (("a", 6), ("b", 5)):
        torch.manual_seed(0)
        net, x = torch.nn.Embedding(9, 8), torch.arange(12).reshape(2, 6)[:, :length] % 9
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        _record_step(tmp_path / run, net, optimizer, x)

    first = compare_runs(tmp_path / "a", tmp_path / "b").first_difference
    assert first is not None
    assert first.stage == "data"


def test_gradients_that_one_factor_explains_are_said_by_their_norms(tmp_path: Path) -> None:
    halved: Change = {"clip": lambda x: x * 0.5}
    comparison = compare_runs(train(tmp_path / "a", ORIGINAL), train(tmp_path / "b", PORT, halved))

    first = comparison.to_dict()["first_difference"]
    norms = first["settings"]["norm of all gradients"]
    assert (first["stage"], norms["candidate"]) == (
        "gradients",
        [pytest.approx(norms["baseline"][0] / 2)],
    )
    assert "; norm of all gradients is" in comparison.sentence


def _halved(layer: torch.nn.Module) -> object:
    return layer.register_full_backward_hook(lambda _, slopes, __: (slopes[0] / 2,))


@pytest.mark.parametrize(
    ("slow", "norm", "names"),
    [
        (lambda net: net[1].weight.requires_grad_(False), 0.01, ["1.weight"]),
        (lambda net: net[2].bias.register_hook(lambda x: 2 * x), 0.01, ["2.bias"]),
        (lambda net: _halved(net[2]), 0.01, ["1.weight", "1.bias", "0.weight", "0.bias"]),
        (lambda net: _halved(net[2]), 1e9, ["1.weight", "1.bias", "0.weight", "0.bias"]),
        (
            lambda net: _halved(net[3]),
            1e9,
            [f"{at}.{kind}" for at in (2, 1, 0) for kind in ("weight", "bias")],
        ),
    ],
)
def test_what_a_clipped_norm_does_not_explain_is_named(
    slow: Callable[[torch.nn.Sequential], object], norm: float, names: list[str], tmp_path: Path
) -> None:
    for run in ("a", "b"):
        torch.manual_seed(0)
        net = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
        if run == "b":
            slow(net)
        optimizer, x = torch.optim.SGD(net.parameters(), 0.1), torch.randn(4, 8)
        with StepRecorder(tmp_path / run).step(net, optimizer, x) as loss_is:
            loss_is(loss := net(x).square().mean())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), norm)
            optimizer.step()

    first = compare_runs(tmp_path / "a", tmp_path / "b").first_difference
    assert first is not None
    assert (first.stage, [tensor.baseline for tensor in first.tensors], first.settings) == (
        "gradients",
        names,
        (),
    )


def test_weights_that_something_else_than_the_update_moves_are_named(tmp_path: Path) -> None:
    averaged: Change = {"between1": lambda x: x * 0.999}
    comparison = compare_runs(
        train(tmp_path / "a", ORIGINAL), train(tmp_path / "b", PORT, averaged)
    )

    first = comparison.first_difference
    assert first is not None
    assert (first.step, first.stage) == (2, "weights")
    assert [tensor.baseline for tensor in first.tensors] == ["net.dense2.weight"]


def test_another_order_that_changes_nothing_is_no_difference(tmp_path: Path) -> None:
    def rounding(seed: int) -> Change:
        return {"gradient0": lambda x: 1e-9 * np.random.default_rng(seed).normal(size=x.shape)}

    turned: Change = {"batch": lambda x: x[::-1]}
    for number, ours in enumerate(({}, rounding(1))):
        a = train(tmp_path / f"a{number}", ORIGINAL, ours)
        b = train(tmp_path / f"b{number}", PORT, {**turned, **(ours and rounding(2))})
        comparison = compare_runs(a, b)
        assert comparison.verdict == "same"
        assert comparison.output_statistics is not None
        for stage in comparison.output_statistics.shown.table.summaries():
            assert stage.stage == "loss" or (stage.distance or 0) < 1e-6


def test_another_order_that_changes_nothing_hides_no_update(tmp_path: Path) -> None:
    turned = {"batch": lambda x: x[::-1], "rate": lambda x: x * 1.01}
    comparison = compare_runs(train(tmp_path / "a", ORIGINAL), train(tmp_path / "b", PORT, turned))

    first = comparison.first_difference
    assert first is not None
    assert (first.step, first.stage) == (1, "update")


def test_rounding_is_no_difference(tmp_path: Path) -> None:
    def rounded(x: Array) -> Array:
        return x * (1 + 1e-7 * np.random.default_rng(1).normal(size=x.shape))

    changes = dict.fromkeys(("hidden", "active", "out", "gradient0", "gradient1"), rounded)
    comparison = compare_runs(train(tmp_path / "a", ORIGINAL), train(tmp_path / "b", PORT, changes))

    assert comparison.verdict == "same", comparison.sentence


def _noisy(size: float, seed: int, changes: Change | None = None) -> Change:
    """Outputs and gradients with noise, as on a device whose sums have no fixed order."""
    random = np.random.default_rng(seed)

    def noisy(name: str) -> Callable[[Array], Array]:
        change = (changes or {}).get(name, lambda x: x)
        return lambda x: change(x) * (1 + size * random.normal(size=np.shape(x)))

    return {
        **(changes or {}),
        **{name: noisy(name) for name in ("hidden", "active", "out", "gradient0", "gradient1")},
    }


@pytest.mark.parametrize("step", [1, 3])
def test_an_update_after_which_nothing_is_finite_is_where_runs_part(
    step: int, tmp_path: Path
) -> None:
    rates = iter([np.nan if at == step else 0.1 for at in (1, 2, 3)])
    a, b = (
        train(tmp_path / "a", ORIGINAL),
        train(tmp_path / "b", PORT, {"rate": lambda _: np.array(next(rates))}),
    )

    for runs in ((a, b), (b, a)):
        first = compare_runs(*runs).first_difference
        assert first is not None
        assert (first.step, first.stage, [tensor.distance for tensor in first.tensors]) == (
            step,
            "update",
            [np.inf] * 2,
        )


@pytest.mark.parametrize("seed", range(1, 9, 2))
def test_what_two_runs_of_one_program_are_apart_is_no_difference_of_a_third(
    seed: int, tmp_path: Path
) -> None:
    a, again = (train(tmp_path / f"{at}", ORIGINAL, _noisy(1e-4, at)) for at in (seed, 100 + seed))
    right = train(tmp_path / "right", PORT, _noisy(1e-4, 200 + seed))
    wrong = train(tmp_path / "wrong", PORT, _noisy(1e-4, 200 + seed, {"out": lambda x: x * 1.01}))

    assert compare_runs(a, right).verdict == "different"
    assert compare_runs(a, right, same=again).verdict == "same"
    first = compare_runs(a, wrong, same=again).first_difference
    assert first is not None
    assert first.location is not None
    assert (first.step, first.location.baseline) == (1, "net.dense2")


# a second run, another one, and where it parts
APART: dict[str, tuple[Change, Change, str | None]] = {
    "earlier outputs": (
        {"hidden": lambda x: x * 1.001, "active": lambda x: x / 1.001},
        {"out": lambda x: x * 1.001},
        None,
    ),
    "another gradient": ({"gradient0": lambda x: x * 1.2}, {"gradient1": lambda x: x * 1.3}, None),
    "of another size": ({"last input": lambda x: x[:, ::2]}, {"out": lambda x: x * 1.1}, "forward"),
    "without modules": ({"no calls": lambda x: x}, {"out": lambda x: x * 1.1}, "forward"),
}


@pytest.mark.parametrize("how", APART)
def test_what_a_second_run_is_apart_by_holds_for_later_outputs_and_for_all_of_a_link(
    how: str, tmp_path: Path
) -> None:
    second, other, kind = APART[how]
    runs = [
        train(tmp_path / name, ORIGINAL, changes, 1)
        for name, changes in (("a", {}), ("b", other), ("c", second))
    ]

    first, alone = (
        compare_runs(runs[0], runs[1], same=same).first_difference for same in (runs[2], None)
    )

    assert alone is not None
    assert (first and first.stage) == kind


@pytest.mark.parametrize(("what", "kind"), [("gradient0", "gradients"), ("mean", "update")])
def test_a_weight_or_mean_that_moves_by_rounding_alone_may_walk(
    what: str, kind: str, tmp_path: Path
) -> None:
    def walking(seed: int, size: float) -> Change:
        random = np.random.default_rng(seed)
        changes: dict[str, Callable[[Array], Array]] = {
            what: lambda x: np.asarray(size * random.normal(size=x.shape))
        }
        if what == "gradient0":  # Adam makes whole steps of it
            changes["after0"] = lambda x: x + 0.01 * np.sign(random.normal(size=x.shape))
        return changes

    runs = {
        (seed, size): train(tmp_path / f"{seed} {size}", ORIGINAL, walking(seed, size), steps=1)
        for seed in (1, 2)
        for size in (1e-9, 1.0)
    }

    assert compare_runs(runs[1, 1e-9], runs[2, 1e-9]).verdict == "same"
    first = compare_runs(runs[1, 1.0], runs[2, 1.0]).first_difference
    assert first is not None
    assert first.stage == kind


def test_the_origin_of_the_first_number_that_is_not_finite_is_said_of_each_run(
    tmp_path: Path,
) -> None:
    changes: Change = {"active": lambda x: np.where(x > 1, np.inf, x)}
    with np.errstate(invalid="ignore"):
        train(tmp_path / "b", ORIGINAL, changes)
    comparison = compare_runs(train(tmp_path / "a", ORIGINAL), tmp_path / "b")

    said = [
        note for note in comparison.notes if note.rule == "not_finite" and "stage" in note.numbers
    ]
    assert [
        (note.numbers["run"], note.numbers["step"], note.numbers["tensor"]) for note in said
    ] == [("candidate", 1, "net.relu")]
    assert said[0].text in str(comparison)


class _Attention(torch.nn.Module):
    """Queries of the mean, and keys that a GRU reads in both directions.

    A port has other words and other code.
    """

    def __init__(self, how: str | None) -> None:
        super().__init__()
        self.how = how
        self.drop, self.gru = (
            torch.nn.Dropout(0.0),
            torch.nn.GRU(8, 8, batch_first=True, bidirectional=True),
        )
        if how == "fused":
            self.qk = torch.nn.Linear(16, 32)
        else:
            self.query, self.key = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16)
        self.mean = _Mean(how) if how else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.gru(x)[0]
        if self.how == "fused":
            query, key = self.qk(self.drop(x)).chunk(2, -1)
        elif self.how == "exchanged code":
            query, key = self.key(x), self.query(x)
        else:
            query, key = self.query(x), self.key(x)
        mixed = self.drop((query @ key.mT).softmax(-1) @ x)
        return self.mean(mixed) if self.mean else mixed.mean(1)


class _Mean(torch.nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.amax(1) if self.how == "greatest" else x.mean(1)


GRU = [f"{kind}_{of}_l0" for kind in ("weight", "bias") for of in ("ih", "hh")]
WRITTEN_ANEW: dict[str, tuple[list[tuple[str, str]], tuple[str, str] | None]] = {
    "right": ([], None),
    "fused": ([], None),
    "exchanged": (
        [("query.weight", "key.weight"), ("query.bias", "key.bias")],
        ("weights", "query.weight"),
    ),
    "exchanged weights": ([("query.weight", "key.weight")], ("weights", "query.weight")),
    "exchanged directions": (
        [(f"gru.{x}", f"gru.{x}_reverse") for x in GRU],
        ("weights", "gru.weight_ih_l0"),
    ),
    "exchanged code": ([], ("forward", "")),
    "greatest": ([], ("forward", "mean")),
}


@pytest.mark.parametrize("how", WRITTEN_ANEW)
def test_a_port_with_other_words_is_right_or_wrong_where_it_is(how: str, tmp_path: Path) -> None:
    exchanged, expected = WRITTEN_ANEW[how]
    torch.manual_seed(0)
    first = torch.nn.ModuleDict({"attention": _Attention(None), "head": torch.nn.Linear(16, 3)})
    port = torch.nn.ModuleDict({"block": _Attention(how), "classes": torch.nn.Linear(16, 3)})
    state = {
        name.replace("attention.", "block.").replace("head.", "classes."): x
        for name, x in first.state_dict().items()
    }
    for kind in ("weight", "bias") if how == "fused" else ():
        state[f"block.qk.{kind}"] = torch.cat(
            [state.pop(f"block.{of}.{kind}") for of in ("query", "key")]
        )
    for one, other in exchanged:
        state[f"block.{one}"], state[f"block.{other}"] = (
            state[f"block.{other}"],
            state[f"block.{one}"],
        )
    port.load_state_dict(state)
    inputs = torch.randn(4, 5, 8)
    for run, net in (("a", first), ("b", port)):
        body, head = net.values()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        with StepRecorder(tmp_path / run).step(net, optimizer, inputs) as loss_is:
            loss_is(loss := head(body(inputs)).square().mean())
            loss.backward()
            optimizer.step()

    comparison = compare_runs(tmp_path / "a", tmp_path / "b")
    first_difference = comparison.first_difference
    if expected is None:
        assert first_difference is None, comparison.sentence
        return
    assert first_difference is not None
    place = first_difference.location
    names = (
        [place.candidate] if place else [tensor.candidate for tensor in first_difference.tensors]
    )
    assert (first_difference.stage, True) == (
        expected[0],
        f"block.{expected[1]}".rstrip(".") in names,
    ), comparison.sentence
