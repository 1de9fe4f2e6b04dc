"""``mindsummary compare``: its exit codes are those of ``diff``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import mindsummary
from tests.porting.comparison.test_verdict import write_run


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    write_run(tmp_path / "a")
    write_run(tmp_path / "same")
    write_run(tmp_path / "other", lambda step, name, x: x * (1.01 if step >= 5 else 1.0))
    write_run(tmp_path / "later", steps=range(50, 55))
    return [str(tmp_path / name) for name in ("a", "same", "other", "later")]


def test_the_exit_code_is_that_of_diff(runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    a, *others = runs

    assert [mindsummary(capsys, "compare", a, other).code for other in others] == [0, 1, 2]
    assert mindsummary(capsys, "compare", a, "nowhere").code == 2
    assert (
        mindsummary(capsys, "compare", a, others[0], "--html", f"{a}/nowhere/page.html").code == 2
    )


def test_the_verdict_comes_first_and_then_what_to_do(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = mindsummary(capsys, "compare", runs[0], runs[2]).out.splitlines()

    assert len(lines) <= 12
    assert lines[0].startswith("different: from step 5, the loss agrees, tensors differ by up to ")
    assert lines[1].startswith("next: to find the module, record step 5 of both runs with ")
    assert lines[3] == "compared: 12 steps, the loss (loss/auto) at 12 steps, 3 tensors"


def test_strict_asks_for_the_same_steps_and_tensors_too(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longer = str(write_run(tmp_path / "longer", steps=range(1, 20)))
    others = str(write_run(tmp_path / "names", names={"fc.bias": "extra.scale"}))

    answers = [mindsummary(capsys, "compare", runs[0], other, *words)
               for other in (longer, others, runs[1]) for words in ((), ("--strict",))]  # fmt: skip

    assert [answer.code for answer in answers] == [0, 1, 0, 1, 0, 0]
    assert mindsummary(capsys, "compare", longer, runs[0], "--strict").code == 1
    # what cannot be compared is not different
    assert mindsummary(capsys, "compare", runs[0], runs[3], "--strict").code == 2
    assert "at 12 common steps" in answers[0].out
    assert "only in the candidate: 7 steps" in answers[0].out
    assert "only in the baseline: 1 tensor (fc.bias)" in answers[2].out


def test_a_second_run_of_the_first_program_is_the_floor(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = str(
        write_run(tmp_path / "again", lambda step, name, tensor: tensor * (1 + 1e-4 * step))
    )
    near = str(write_run(tmp_path / "near", lambda step, name, tensor: tensor * (1 - 2e-4 * step)))
    far = str(write_run(tmp_path / "far", lambda step, name, tensor: tensor * (1 + 8e-4 * step)))

    codes = [
        mindsummary(capsys, "compare", runs[0], other, "--same", again).code
        for other in (near, far)
    ]

    assert codes == [0, 1]
    assert mindsummary(capsys, "compare", runs[0], near).code != 0


def test_names_of_tensors_and_a_tolerance_may_be_given(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed = str(write_run(tmp_path / "renamed", names={"fc.bias": "extra.scale"}))
    names = tmp_path / "names.txt"
    names.write_text("fc.bias extra.scale\n", encoding="utf-8")

    words = ("compare", runs[0], renamed, "--strict")
    assert [mindsummary(capsys, *words, *more).code for more in ((), ("--names", names))] == [1, 0]
    found = {
        tolerance: mindsummary(capsys, "compare", runs[0], runs[2], "--tolerance", tolerance).code
        for tolerance in ("0.5", "1e-3", "float32")
    }
    assert found == {"0.5": 0, "1e-3": 1, "float32": 1}


def test_json_and_page(runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"

    answer = mindsummary(capsys, "compare", runs[0], runs[2], "--json", "--html", str(page))

    assert answer.code == 1
    assert json.loads(answer.out)["first_difference"]["step"] == 5
    told = mindsummary(capsys, "compare", runs[0], runs[2], "--html", str(page))
    assert told.out.splitlines()[-1] == f"page: {page}"
    assert "from step 5, the loss agrees" in page.read_text(encoding="utf-8")


def test_the_page_is_chinese_where_asked_for(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"

    mindsummary(capsys, "compare", runs[0], runs[2], "--html", str(page), "--language", "zh")

    text = page.read_text(encoding="utf-8")
    assert 'lang="zh-CN"' in text
    assert "从第 5 步起，损失一致" in text
