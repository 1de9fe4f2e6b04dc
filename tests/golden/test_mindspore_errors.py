"""Each argument given each wrong kind of value: the error of a real MindSpore, or a difference that
the page names.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mindsummary_lightning import SummaryCollector, SummaryLandscape, SummaryRecord
from tests.golden.write_errors import answer, answers

PAGE = Path(__file__).parents[2] / "docs" / "development" / "mindspore-errors.md"
_NUMBERS = ("an int", "zero", "a negative int", "a float", "a bool")
_OTHERS = ("a list", "a dict", "a dict of numbers", "an object")
_TEXTS = ("a text", "an empty text", "a file")
_GENERATE = "gen_landscapes_with_multi_process"
_OURS = [  # of each difference on the page: what it is about, what ours answers, to which kinds
    ("SummaryCollector(summary_dir)", "accepted", ["None"]),
    *[
        (f"SummaryRecord({argument})", "accepted", _TEXTS[:2])
        for argument in ("file_prefix", "file_suffix")
    ],
    ("SummaryRecord(max_file_size)", "ValueError", ["zero", "a negative int"]),
    ("SummaryRecord(max_file_size)", "TypeError", ["a bool"]),
    (
        "SummaryCollector(collect_specified_data collect_landscape num_samples)",
        "ValueError",
        ["zero", "a negative int"],
    ),
    ("SummaryCollector(custom_lineage_data value)", "accepted", ["a bool"]),
    ("SummaryRecord(network)", "TypeError", [*_NUMBERS, *_TEXTS, *_OTHERS]),
    ("SummaryLandscape(summary_dir)", "FileNotFoundError", ["a text"]),
    ("SummaryLandscape(summary_dir)", "ValueError", ["an empty text"]),
    (f"{_GENERATE}(callback_fn)", "TypeError", ["None", *_NUMBERS, *_TEXTS, *_OTHERS[:3]]),
    (f"{_GENERATE}(collect_landscape)", "TypeError", [*_NUMBERS, *_TEXTS, "a list", "an object"]),
    (f"{_GENERATE}(device_ids)", "FileNotFoundError", ["None"]),
    (f"{_GENERATE}(output)", "ValueError", ["an empty text"]),
    ("add_value(name)", "TypeError", ["None", *_NUMBERS, *_OTHERS]),
    ("add_value(name)", "accepted", ["a text", "a file"]),  # the value is a Python number
    ("add_value(value of scalar)", "accepted", [*_NUMBERS, "a list"]),
    ("add_value(value of image)", "ValueError", [*_NUMBERS, "a list"]),
    *[(f"add_value(value of {kind})", "ValueError", _NUMBERS) for kind in ("tensor", "histogram")],
    *[(f"add_value(value of {kind})", "accepted", ["a list"]) for kind in ("tensor", "histogram")],
    ("add_value(value of custom_lineage_data)", "accepted", ["a dict"]),
    ("add_value(value of landscape)", "TypeError", ["None", *_NUMBERS, *_TEXTS, *_OTHERS]),
    ("record(plugin_filter)", "TypeError", [*_NUMBERS, *_TEXTS, *_OTHERS[:3]]),
]


@pytest.mark.slow
def test_a_wrong_argument_raises_what_mindspore_raises_but_for_what_the_page_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    theirs = json.loads(
        Path(__file__).with_name("mindspore_errors.json").read_text(encoding="utf-8")
    )
    ours = answers((SummaryRecord, SummaryCollector, SummaryLandscape), tmp_path, answer)

    differ = {
        (name, kind): ours[name][kind]
        for name, asked in theirs.items()
        for kind, error in asked.items()
        if ours[name][kind] != error
    }
    assert sum(map(len, theirs.values())) == 676
    assert differ == {(name, kind): error for name, error, kinds in _OURS for kind in kinds}
    # which the questions themselves made
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    table = PAGE.read_text("utf-8")
    named = set(re.findall(r"`(\w+)\((\w+)", table))
    assert named == {tuple(re.findall(r"\w+", name)[:2]) for name, _ in differ}
    assert "676 cases" in table
