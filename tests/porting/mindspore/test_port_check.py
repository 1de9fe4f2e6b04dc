"""Ports between PyTorch and a real MindSpore, in both directions; ``nox -s parity`` makes the runs.

``MINDSPORE_CHAINS`` holds MindSpore's originals with whole tensors. ``MINDSPORE_REPORTS`` holds the
reports that ``wrong_ports.py`` has made of MindSpore ports.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning import PortCheck
from mindsummary_lightning.fileio.whole_step_file import WholeStepReader
from tests.porting.comparison.chains.nets_torch import train

ORIGINALS = os.environ.get("MINDSPORE_CHAINS", "")
REPORTS = os.environ.get("MINDSPORE_REPORTS", "")
STEPS = os.environ.get("MINDSPORE_STEPS", "")
needs_originals = pytest.mark.skipif(
    not ORIGINALS, reason="MINDSPORE_CHAINS names no runs of MindSpore"
)
needs_reports = pytest.mark.skipif(
    not REPORTS, reason="MINDSPORE_REPORTS names no reports of MindSpore"
)
needs_steps = pytest.mark.skipif(not STEPS, reason="MINDSPORE_STEPS names no runs of MindSpore")
NETS = ["transformer", "resnet"]


def _check(kind: str, tmp_path: Path, mistake: str = "") -> PortCheck:
    check = PortCheck(Path(ORIGINALS) / kind, steps=1)
    train(kind, tmp_path / "port", mistake, check)
    return check


@needs_steps
@pytest.mark.parametrize(
    "case", ["model", "loop", "recomputed", "groups", "scaled", "own", "compiled"]
)
def test_a_step_holds_calls_gradients_weights_and_update(case: str) -> None:
    reader = WholeStepReader(Path(STEPS) / case / "whole_step_2.npz")
    step = reader.step

    cells = [
        "",
        "conv",
        "bn",
        "relu",
        "flat",
        "body",
        "body.0",
        "body.1",
        "body.2",
        "relu",
        "fc",
    ]  # as they are entered
    compiled = [name for name in cells if "body." not in name]
    assert [call.module for call in step.calls] == (compiled if case == "compiled" else cells)
    assert all(call.inputs and call.outputs and call.left > call.entered for call in step.calls)
    parameters = [weight for weight in step.weights if weight.kind == "parameter"]
    assert len(parameters) == 9
    assert all(
        weight.after and weight.gradient and weight.stepped_gradient for weight in parameters
    )
    assert len(step.losses) == len(step.optimizers) == 1
    assert sum(len(names) for names in step.optimizers[0].weights) == 9
    assert step.loss_scale == (1024.0 if case == "scaled" else 1.0)


@needs_steps
def test_each_output_of_a_cell_has_its_gradient() -> None:
    step = WholeStepReader(Path(STEPS) / "model" / "whole_step_2.npz").step

    assert [call.module for call in step.calls if not call.output_gradients] == []
    assert {tensor.path for call in step.calls for tensor in call.output_gradients} == {""}


@needs_steps
def test_a_step_that_is_larger_than_max_bytes_is_not_written() -> None:
    assert not [*(Path(STEPS) / "large").glob("whole_step_*")]


@needs_steps
def test_a_step_in_graph_mode_is_not_written() -> None:
    assert not [*(Path(STEPS) / "graph").glob("whole_step_*")]


@pytest.mark.slow
@needs_originals
@pytest.mark.parametrize("kind", NETS)
def test_a_right_torch_port_of_a_mindspore_net_has_no_mistake(kind: str, tmp_path: Path) -> None:
    report = _check(kind, tmp_path).report

    assert report is not None
    assert [finding.sentence for finding in report.findings] == []
    assert report.to_dict()["greatest_distances"]["output"] < 2e-6


@pytest.mark.slow
@needs_originals
@pytest.mark.parametrize(
    ("kind", "mistake", "module", "kinds"),
    [
        ("transformer", "norm_eps", "model.blocks.0.norm2", {"output"}),
        ("transformer", "mask_hides_itself", "model.blocks.0.attn", {"inputs"}),
        ("transformer", "label_smoothing", "", {"loss"}),
        ("resnet", "average_pool", "model.pool", {"output"}),
        ("resnet", "last_relu_missing", "model.layers.1", {"output"}),
        ("resnet", "decay_all", "", {"update"}),
    ],
)
def test_a_mistake_of_a_torch_port_is_named_at_its_module(
    kind: str, mistake: str, module: str, kinds: set[str], tmp_path: Path
) -> None:
    report = _check(kind, tmp_path, mistake).report

    assert report is not None
    assert (report.findings[0].module, report.findings[0].kind in kinds) == (module, True)


def _reports() -> list[Any]:
    cases = []
    for path in sorted(Path(REPORTS).glob("*.json")) if REPORTS else []:
        for case in json.loads(path.read_text(encoding="utf-8")):
            name = "-".join([path.stem, *case["mistakes"]])
            cases.append(pytest.param(case, id=name))
    return cases


def _is_named(expected: dict[str, Any], findings: list[dict[str, Any]]) -> bool:
    return any(
        each["module"] in expected["modules"] and each["kind"] in expected["kinds"]
        for each in findings
    )


@needs_reports
@pytest.mark.parametrize("case", _reports())
def test_all_mistakes_of_a_mindspore_port_are_named_in_one_run(case: dict[str, Any]) -> None:
    findings = case["report"]["findings"]

    assert [expected for expected in case["expected"] if not _is_named(expected, findings)] == []
    modules = {module for expected in case["expected"] for module in expected["modules"]}
    assert [finding["sentence"] for finding in findings if finding["module"] not in modules] == []
