"""The help of the command and of each verb fits terminals of 80 and of 60 columns."""

from __future__ import annotations

import pytest

from mindsummary_lightning.cli.verbs import VERBS
from tests.cli.command import mindsummary


@pytest.mark.parametrize("columns", [80, 60])
def test_no_line_of_a_help_is_wider_than_the_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    helps = {verb: mindsummary(capsys, *verb.split(), "--help") for verb in ("", *VERBS)}

    assert {answer.code for answer in helps.values()} == {0}
    assert [line for answer in helps.values() for line in answer.out.splitlines() if len(line) > columns] == []
