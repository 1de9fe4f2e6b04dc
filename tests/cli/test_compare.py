"""``mindsummary compare``: its exit codes are those of ``diff``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import mindsummary
from tests.comparison.test_verdict import write_run


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    write_run(tmp_path / "a")
    write_run(tmp_path / "same")
    write_run(tmp_path / "other", loss=lambda step: 1.0 / step + (0.1 if step == 5 else 0.0))
    write_run(tmp_path / "later", steps=range(50, 55))
    return [str(tmp_path / name) for name in ("a", "same", "other", "later")]


def test_the_exit_code_is_that_of_diff(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    a, *others = runs

    assert [mindsummary(capsys, "compare", a, other).code for other in others] == [0, 1, 2]
    assert mindsummary(capsys, "compare", a, "nowhere").code == 2
    assert mindsummary(capsys, "compare", a, others[0], "--html", f"{a}/nowhere/page.html").code == 2


def test_the_verdict_and_what_it_looks_like_are_printed(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    printed = mindsummary(capsys, "compare", runs[0], runs[2]).out

    assert "The runs part at step 5, in the forward pass or its data" in printed
    assert "looks like another batch" in printed


def test_json_and_page(runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"

    answer = mindsummary(capsys, "compare", runs[0], runs[2], "--json", "--html", str(page))

    assert json.loads(answer.out)["first_difference"]["class"] == "forward"
    assert "looks like another batch" in page.read_text(encoding="utf-8")


def test_a_map_that_is_wrong_is_one_line(runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "map").write_text("nothing fc.bias\n")

    answer = mindsummary(capsys, "compare", runs[0], runs[1], "--map", str(tmp_path / "map"))

    assert (answer.code, "the first run has no tensor 'nothing'" in answer.err) == (2, True)
