"""The report in text, JSON and HTML, in two languages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import mindsummary_lightning.porting.port_check as package
from mindsummary_lightning import PortReport
from mindsummary_lightning.porting.port_check.finding_log import fold_steps
from mindsummary_lightning.porting.port_check.findings import NotPaired, NotTested, PortFinding
from mindsummary_lightning.porting.port_check.port_report import CheckedStep
from mindsummary_lightning.porting.port_check.tolerances import TOLERANCES
from mindsummary_lightning.porting.port_check.weight_pairs import WeightPairs
from mindsummary_lightning.values.text import Phrase

_FOLDER = Path(package.__file__).parent


def report() -> PortReport:
    sentence = Phrase(
        "The weight {} differs by {:.1e} before the step. The check goes on with the "
        "recorded weight.",
        "<w>",
        0.5,
    )
    finding = PortFinding(
        "block.act",
        "weights",
        Phrase("weight {}", "<w>"),
        float("inf"),
        1e-5,
        sentence,
        "port.py:3",
        (2,),
        (3,),
    )
    finding.consequences.append(PortFinding("block", "gradient", "x", 0.1, 1e-4, Phrase("data")))
    step = CheckedStep(
        step=1,
        findings=[finding],
        paired_calls=3,
        agreed=7,
        tolerance=TOLERANCES["float32"],
        worst_output=1e-7,
        unpaired=[
            NotPaired(
                "fc", "Linear", "reference", Phrase("no call of the port has its weights or inputs")
            )
        ],
        not_tested=[
            NotTested(Phrase("update"), Phrase("no optimizer of the port has updated weights"))
        ],
        worst_gradient=0.0,
        worst_weight_gradient=0.0,
        weights=WeightPairs({}, (), ()),
        modules=[("", "Net"), ("block", "Block"), ("block.act", "GELU")],
        paired_modules=["", "block"],
    )
    return PortReport("runs/original", [step])


def test_the_dict_has_what_a_program_needs() -> None:
    found = report().to_dict()

    (finding,) = found["findings"]
    assert {*finding} >= {
        *(
            "module",
            "kind",
            "place",
            "line",
            "distance",
            "tolerance",
            "shape_reference",
            "shape_port",
            "call",
        ),
        *("sentence", "consequences"),
    }
    assert (finding["module"], finding["kind"], finding["line"]) == (
        "block.act",
        "weights",
        "port.py:3",
    )
    assert finding["distance"] is None  # infinite
    assert (found["paired_calls"], found["agreed"], len(found["unpaired"])) == (3, 7, 1)
    assert json.loads(report().to_json()) == found


def test_the_text_begins_with_findings_and_ends_with_what_was_not_tested() -> None:
    lines = report().text().splitlines()

    assert lines[0] == "1 mistake found in step 1:"
    assert "called at port.py:3; 1 more difference follows from it" in lines[2]
    assert lines[-2].startswith("7 tensors of 3 calls agree (tolerance float32: 1e-05)")
    assert lines[-1] == "not tested: update: no optimizer of the port has updated weights"


@pytest.mark.parametrize(
    ("language", "words"), [("en", "Modules of the port"), ("zh", "移植模型的模块")]
)
def test_the_page_has_the_tree_and_escapes_names(language: str, words: str, tmp_path: Path) -> None:
    page = report().to_html(tmp_path / "report.html", language=language)

    assert words in page
    assert "&lt;w&gt;" in page
    assert "<w>" not in page
    assert '<span class="first">block.act (GELU)</span>' in page
    assert '<span class="agrees">block (Block)</span>' in page or "<details open>" in page
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page


def test_a_module_whose_weights_alone_are_updated_otherwise_agrees() -> None:
    checked = report()
    wrong = PortFinding("", "update", "optimizer", 0.1, 1e-3, Phrase("data"))
    wrong.consequences.append(PortFinding("block", "update", "x", 0.1, 1e-3, Phrase("data")))
    checked.findings[:] = [wrong]

    assert '<span class="agrees">block (Block)</span>' in checked.to_html()


def test_another_language_is_refused() -> None:
    with pytest.raises(ValueError, match="language must be 'en' or 'zh', got 'de'"):
        report().to_html(language="de")


def test_a_finding_of_a_later_step_follows_from_the_same_one_before() -> None:
    def finding(step: int) -> PortFinding:
        return PortFinding("a", "output", "a (GELU)", 0.1, 1e-5, "", step=step)

    (first,) = fold_steps([[finding(1)], [finding(2)]])

    assert [each.step for each in first.consequences] == [2]


def test_every_phrase_has_a_chinese_one() -> None:
    chinese = json.loads((_FOLDER / "report_zh.json").read_text(encoding="utf-8"))
    missing = set()
    for path in _FOLDER.rglob("*.py"):
        source = re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8"))
        missing |= {
            text
            for text in re.findall(r'(?:Phrase|say)\(\s*"([^"]+)"', source)
            if text not in chinese
        }

    assert missing == set()
