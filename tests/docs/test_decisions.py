"""Each decision record has the usual form, and the page of decisions lists it."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

_FOLDER = ROOT / "docs" / "decisions"
_RECORDS = sorted(_FOLDER.glob("[0-9]*.md"))


@pytest.mark.parametrize("name", [record.name for record in _RECORDS])
def test_a_record_has_status_date_context_decision_and_consequences(name: str) -> None:
    text = (_FOLDER / name).read_text(encoding="utf-8")

    assert re.match(rf"# {int(name[:4])}\. [A-Z]", text)
    assert re.search(r"^Status: \w+\. Date: \d{4}-\d\d-\d\d\.", text, re.MULTILINE)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


def test_the_page_of_decisions_lists_every_record_by_its_title() -> None:
    listed = re.findall(
        r"^\| (\d+) \| \[(.*)\]\((.*)\) \|$",
        (_FOLDER / "index.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    titles = [
        record.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        for record in _RECORDS
    ]

    assert [f"{number}. {title}" for number, title, _ in listed] == titles
    assert [name for _, _, name in listed] == [record.name for record in _RECORDS]
