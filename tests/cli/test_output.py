"""What a text takes on a terminal."""

from __future__ import annotations

import pytest

from mindsummary_lightning.cli.output import cells, cut


@pytest.mark.parametrize(
    ("text", "columns"),
    [("", 0), ("loss", 4), ("\u00e9", 1), ("e\u0301", 1), ("\u635f\u5931", 4), ("\uff21", 2)],
    ids=["empty", "ascii", "accent", "combining accent", "wide", "full width"],
)
def test_a_wide_character_takes_two_columns_and_a_combining_one_none(
    text: str, columns: int
) -> None:
    assert cells(text) == columns


@pytest.mark.parametrize(
    ("most", "shown"), [(4, "loss"), (3, "lo\u2026"), (2, "l\u2026"), (1, "\u2026")]
)
def test_a_text_is_cut_to_the_columns_there_are(most: int, shown: str) -> None:
    assert cut("loss", most) == shown
