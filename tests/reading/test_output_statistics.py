"""What a reader says of the chains of a run, and where the first number that is not finite comes
from.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mindsummary_lightning import StepRecorder, SummaryReader
from mindsummary_lightning.cli import main
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.output_statistics import (
    origin_text,
    output_statistics_facts,
    row_name,
)
from mindsummary_lightning.types import OutputStatistics
from mindsummary_lightning.values.step_chain import OutputRow


class Root(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x.sqrt() + mask.exp()


class Net(nn.Module):
    """``broken`` has NaN: what a module computes, a weight, or the batch; a mask has infinities,
    which is right.
    """

    def __init__(self, broken: str) -> None:
        super().__init__()
        self.first, self.root, self.last = nn.Linear(4, 4), Root(), nn.Linear(4, 1)
        nn.init.constant_(self.first.weight, -1 if broken == "module" else 1)
        nn.init.zeros_(self.first.bias)
        self.mask = torch.full((4,), -torch.inf if broken == "mask" else 0.0)
        if broken == "weight":
            nn.init.constant_(self.last.bias, float("nan"))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.root(self.first(x), self.mask))


def record(path: Path, broken: str) -> OutputStatistics:
    net, x = Net(broken), torch.ones(2, 4)
    if broken == "batch":
        x[0, 0] = float("inf")
    optimizer = torch.optim.SGD(net.parameters(), lr=float("nan") if broken == "settings" else 0.1)
    recorder = StepRecorder(path, 2)
    for _ in range(3):
        with recorder.step(net, optimizer, {"x": x}) as loss_is:
            loss = net(x / 0 if broken == "input" else x).mean()
            loss_is(loss)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    table = SummaryReader(path).output_statistics()
    assert table is not None
    return table


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ("module", "first not finite: Root root output at step 1, called at "),
        ("weight", "first not finite: the weight last.bias at step 1\n"),
        ("batch", "first not finite: the batch x at step 1\n"),
        ("settings", "first not finite: the settings group 0 lr at step 1\n"),
        ("input", "first not finite: Linear first input at step 1, called at "),
        ("mask", ""),
        ("nothing", ""),
    ],
)
def test_show_and_the_report_name_where_the_first_number_that_is_not_finite_comes_from(
    broken: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("bokeh")
    table = record(tmp_path / "run", broken)
    first = table.first_non_finite()
    assert main(["show", str(tmp_path / "run")]) == 0
    page = capsys.readouterr().out
    main(["report", str(tmp_path / "run"), "-o", str(tmp_path / "report.html")])

    assert (text or "Output statistics") in page
    assert ("first not finite" in page) == (first is not None) == bool(text)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (text.removeprefix("first not finite: ").rstrip() in html) or not text
    assert ("first number that is not finite" in html) == bool(text)
    if broken == "module":
        assert page.count("whose inputs are finite") == 1


def test_the_rows_of_the_last_step_are_shown_and_are_json_and_a_data_frame(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    table = record(tmp_path, "nothing")
    assert main(["show", str(tmp_path), "--output-statistics"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main(["show", str(tmp_path), "--output-statistics", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["output_statistics"]
    frame = table.to_pandas()

    rows, values = table.rows_at(2)
    assert found["steps"] == [1, 2]
    assert found["first_not_finite"] is None
    assert [(row["link"], row["name"], row["port"]) for row in found["last_step"]] == [
        (row.link, row.name, row.port) for row in rows
    ]
    at = [row.name + row.port for row in rows].index("rootoutput")
    shown_columns = ("elements", "rms", "mean", "minimum", "maximum", "zeros", "non_finite")
    assert found["last_step"][at] == {
        **asdict(rows[at]),
        **dict(zip(shown_columns, values[at, 1:8].tolist(), strict=True)),
        "shape": [2, 4],
    }
    shown = next(
        line.split() for line in lines if line.split()[:3] == ["forward", "root", "output"]
    )
    rms = frame.loc[(2, "forward", "root", 0, "output", "")]["rms"]
    assert shown[3:7] == ["Root", "2", "x", "4"]
    names = ["elements", "rms", "mean", "minimum", "maximum", "zeros", "non_finite"]
    numbers = frame.loc[(2, "forward", "root", 0, "output", "")]
    assert [float(cell) for cell in shown[7:14]] == pytest.approx(
        [numbers[name] for name in names], rel=1e-4
    )
    assert "test_output_statistics.py:" in shown[14]
    text = [" ".join(line.split()) for line in lines]
    head = "link name kind shape elements rms mean minimum maximum zeros non finite line"
    what = "of batch, weights, modules, loss, gradients and update"
    assert text[text.index(head) - 1] == f"{len(rows)} rows {what} at 2 steps, 1 to 2"
    assert "data x 2 x 4 8 1 1 1 1 0 0" in text
    (unmasked,) = (line for line in text if line.startswith("forward root input 1 Root"))
    assert unmasked.startswith("forward root input 1 Root 4 4 0 0 0 0 1 0 ")
    assert len(text) - text.index(head) == 1 + len(rows)
    # numbers stand at the right
    begin = next(line for line in lines if "non finite" in line).index("zeros  non finite")
    assert {line[begin : begin + 17] for line in lines if " root " in line} == {
        "    0           0",
        "    1           0",
    }
    assert (
        rms
        == values[
            [row.name + row.port for row in rows].index("rootoutput"), table.columns.index("rms")
        ]
    )
    assert len(frame) == 2 * len(rows)
    assert frame.index.names == ["step", "link", "name", "call", "port", "path"]


def test_the_facts_of_a_run_name_the_row_of_the_first_number_that_is_not_finite(
    tmp_path: Path,
) -> None:
    table = record(tmp_path, "batch")
    (batch,) = [row for row in table.rows if row.link == "data"]
    run = FollowedRun(str(tmp_path))
    run.refresh()

    found = output_statistics_facts(run, has_rows=False)

    assert found is not None
    assert found[1] == {
        "rows": len(table.rows),
        "steps": [1, 2],
        "first_not_finite": {"step": 1, **asdict(batch)},
    }


_ROWS = (
    OutputRow("forward", "net", port="output"),
    OutputRow("data", "x"),
    OutputRow("forward", "net", port="input"),
    OutputRow("forward", "net.mask", port="input"),
    OutputRow("forward", "net", call=1, port="output"),
    OutputRow("gradients", "net.weight"),
)
_OUTPUT, _DATA, _INPUT, _MASK, _AGAIN, _GRADIENT = range(6)


def _statistics(steps: list[int], *bad: set[int], order: tuple[int, ...]) -> OutputStatistics:
    """Tables of two columns whose rows occur in an order; some have numbers that are not finite."""
    values = np.full((len(steps), len(_ROWS), 2), np.nan)
    for table, rows in zip(values, bad, strict=True):
        table[list(order), 0] = 10.0 + np.arange(len(order))
        table[list(order), 1] = [2.0 * (row in rows) for row in order]
    return OutputStatistics(np.array(steps), _ROWS, ("order", "non_finite"), values)


def test_the_rows_of_a_step_come_in_their_order_without_those_that_did_not_occur() -> None:
    table = _statistics([3, 7], set(), {_DATA}, order=(_DATA, _MASK, _INPUT, _OUTPUT))

    rows, values = table.rows_at(7)

    assert rows == [_ROWS[row] for row in (_DATA, _MASK, _INPUT, _OUTPUT)]
    assert values.tolist() == [[10, 2], [11, 0], [12, 0], [13, 0]]
    assert table.rows_at(3)[1].tolist() == [[10, 0], [11, 0], [12, 0], [13, 0]]
    for step in (2, 4, 8):
        with pytest.raises(ValueError, match=r"2 steps are recorded, the first is step 3"):
            table.rows_at(step)
    assert repr(table) == "OutputStatistics(2 steps, 6 rows, 2 columns)"
    with pytest.raises(
        ValueError, match=r"\(steps, rows, columns\) = \(1, 6, 2\), got \(2, 6, 2\)"
    ):
        OutputStatistics(np.array([3]), _ROWS, table.columns, table.values)


def test_a_table_owns_its_arrays_and_a_run_without_tables_has_none(tmp_path: Path) -> None:
    steps, values = np.array([5], np.int32), np.ones((1, 1, 2), np.float32)
    table = OutputStatistics(steps, _ROWS[:1], ("order", "non_finite"), values)
    steps[0], values[:] = 7, 7

    assert (table.steps.dtype, table.values.dtype) == (np.int64, np.float64)
    assert (table.steps.tolist(), table.values.tolist()) == ([5], [[[1.0, 1.0]]])
    assert SummaryReader(tmp_path).output_statistics() is None


@pytest.mark.parametrize(
    ("row", "name", "origin"),
    [
        (
            OutputRow("forward", "net.fc", "Linear", 1, "output", "0.x", line="n:1"),
            "net.fc (call 2) output 0.x",
            "Linear net.fc (call 2) output 0.x at step 7, called at n:1, whose inputs are finite",
        ),
        (
            OutputRow("forward", "", "Net", port="input", path="mask"),
            "input mask",
            "Net input mask at step 7",
        ),
        (OutputRow("data", "x", port="port"), "x", "the batch x at step 7"),
        (
            OutputRow("settings", "group 0", port="lr"),
            "group 0 lr",
            "the settings group 0 lr at step 7",
        ),
        (OutputRow("gradients", "fc.bias"), "fc.bias", "the gradient of fc.bias at step 7"),
        (OutputRow("clipped", "fc.bias"), "fc.bias", "the clipped gradient of fc.bias at step 7"),
        (OutputRow("update", "fc.bias"), "fc.bias", "the weight after fc.bias at step 7"),
        (OutputRow("weights", "fc.bias"), "fc.bias", "the weight fc.bias at step 7"),
        (OutputRow("loss", ""), "", "the loss at step 7"),
    ],
)
def test_a_tensor_of_a_step_is_named_in_words(row: OutputRow, name: str, origin: str) -> None:
    assert (str(row_name(row)), str(origin_text(7, row))) == (name, origin)


@pytest.mark.parametrize(
    ("bad", "origin"),
    [
        ({_OUTPUT}, _OUTPUT),
        ({_DATA, _INPUT, _OUTPUT}, _DATA),
        ({_MASK, _OUTPUT}, _OUTPUT),  # an infinite mask is another module's input
        ({_MASK, _AGAIN}, _AGAIN),
        ({_INPUT, _OUTPUT}, _INPUT),  # they are the only ones
        ({_INPUT, _OUTPUT, _AGAIN}, _AGAIN),  # the input of the other call is finite
        ({_INPUT, _GRADIENT}, _GRADIENT),
        ({_AGAIN, _GRADIENT}, _AGAIN),
        ({_MASK, _INPUT}, None),
        (set(), None),
    ],
)
def test_the_first_number_that_is_not_finite_arose_where_inputs_were_finite(
    bad: set[int], origin: int | None
) -> None:
    order = (_DATA, _MASK, _INPUT, _OUTPUT, _AGAIN, _GRADIENT)
    table = _statistics([3, 7, 9], {_MASK}, bad, {_OUTPUT}, order=order)

    expected = (9, _ROWS[_OUTPUT]) if origin is None else (7, _ROWS[origin])
    assert table.first_non_finite() == expected
