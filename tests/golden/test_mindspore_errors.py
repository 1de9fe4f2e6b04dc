"""Each argument given each wrong kind of value: the error of a real MindSpore, or a difference that the page names."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from mindsummary_lightning import SummaryCollector, SummaryRecord
from tests.golden.write_errors import answers

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-mindspore.md"
_OURS = {  # of each difference on the page, what it is about and what ours answers
    ("SummaryCollector(summary_dir)", "None"): "accepted",
    **{
        (f"SummaryRecord({argument})", kind): "accepted"
        for argument in ("file_prefix", "file_suffix")
        for kind in ("a text", "an empty text")
    },
    ("SummaryRecord(max_file_size)", "zero"): "ValueError",
    ("SummaryRecord(max_file_size)", "a negative int"): "ValueError",
    ("SummaryRecord(max_file_size)", "a bool"): "TypeError",
    **{
        ("add_value(name)", kind): "TypeError"
        for kind in (
            "None", "an int", "zero", "a negative int", "a float", "a bool", "a list", "a dict", "a dict of numbers",
            "an object",
        )
    },
    **{("add_value(name)", kind): "accepted" for kind in ("a text", "a file")},  # the value is a Python number
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each question is asked in a forked process")
def test_a_wrong_argument_raises_what_mindspore_raises_but_for_what_the_page_names_and_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    theirs = json.loads(Path(__file__).with_name("mindspore_errors.json").read_text())
    ours = answers(SummaryRecord, SummaryCollector, tmp_path)

    differ = {
        (name, kind): ours[name][kind]
        for name, asked in theirs.items()
        for kind, error in asked.items()
        if ours[name][kind] != error
    }
    assert sum(map(len, theirs.values())) == 234
    assert differ == _OURS
    assert [path.name for path in tmp_path.iterdir()] == ["file"]  # which the questions themselves made
    table = PAGE.read_text("utf-8").partition("### Errors")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)\((\w+)", table))
    assert named == {tuple(name.rstrip(")").split("(")) for name, _ in differ}
    assert "234 cases" in table
