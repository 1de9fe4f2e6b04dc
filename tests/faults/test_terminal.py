"""Row 26: nothing that was recorded, and no name of a file, sends commands to the terminal that it
is printed on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    Event,
    Graph,
    GraphNode,
    LossLandscape,
    Points,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
)
from tests.cli.command import mindsummary
from tests.reading.runs import histogram, record, values_at, write_lineage, write_summary
from tests.support import skip_without_unicode_names

pytestmark = pytest.mark.faults

# Clears the screen, sets the title, moves the cursor (7 and 8 bits), hides text, reorders text,
# breaks the line.
HOSTILE = "a\x1b[2J\x1b]0;title\x07\x9b5A\x7f\u202eb\u2028\r\n\ud800"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    skip_without_unicode_names()
    run = tmp_path / HOSTILE.replace("\ud800", "")
    axis = np.arange(4, dtype=np.float32)
    landscape = LossLandscape(Points(axis, axis, np.ones((4, 4), np.float32)))
    text = HOSTILE.replace("\ud800", "")  # protobuf holds no lone surrogate
    values = {
        f"{text}{number}": value
        for number, value in enumerate((0.5, histogram(1), Tensor(np.ones(2)), landscape))
    }
    events = [values_at(1, {tag: value}) for tag, value in values.items()]
    write_summary(run, [*events, record(Event(1.0, 0, Graph((GraphNode("1", text, text, text),))))])
    write_lineage(
        run,
        [
            TrainInfo(optimizer=text, network=text, train_dataset_path=text, model_path=text),
            EvaluationInfo(json.dumps({text: 1.0})),
            DatasetGraph({"op_type": text}),
            UserDefinedInfo({text: text, "nested": {text: text}}),
        ],
    )
    return run


def test_no_verb_prints_a_control_character(
    tmp_path: Path,
    run: Path,
    capsys: pytest.CaptureFixture[str],
    figure: Callable[[int, str], None],
) -> None:
    files = sorted(path for path in run.iterdir() if path.is_file())
    calls = [
        ["list", tmp_path],
        ["show", run],
        *(["dump", path] for path in files),
        ["lineage", tmp_path],
        ["lineage", tmp_path, "--json"],
        ["lineage", tmp_path, "--sort", HOSTILE],
        ["verify", tmp_path],
        *(
            ["export", run, "--to", form, "--out", tmp_path / form / run.name]
            for form in ("csv", "npy")
        ),
        ["show", tmp_path / "\x1b[2J"],
    ]
    printed = [mindsummary(capsys, *call) for call in calls]
    for path in files:
        with path.open("ab") as file:
            file.write(b"torn")
    (run / "model\x1b[2J.pb").touch()
    printed += [
        mindsummary(capsys, *call) for call in (["verify", run], ["repair", run], ["show", run])
    ]

    for answer in printed:
        for line in (answer.out + answer.err).split("\n"):
            assert line.isprintable(), line
    assert "\\u001b[2J" in printed[1].out
    figure(
        26,
        (
            f"{len(printed)} calls of 8 verbs on names and values of control characters: 0 reach "
            "the terminal"
        ),
    )


def test_what_is_dumped_is_still_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = next(path for path in run.iterdir() if path.name.endswith("_MS"))

    lines = mindsummary(capsys, "dump", path).out.splitlines()

    tags = [value["tag"] for line in map(json.loads, lines) for value in line.get("values", ())]
    assert tags == [f"{HOSTILE[:-1]}{number}" for number in range(4)]
