"""Values of cells as numbers, as texts and as keys to sort by."""

from __future__ import annotations

import math

import pytest

from mindsummary_lightning.lineage.cell_values import (
    as_text,
    in_order,
    number_of,
    searched_text,
    short_name,
)
from mindsummary_lightning.lineage.column_names import is_of_files, setting_column


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, 5),
        (True, True),
        (0.5, 0.5),
        ("7", 7),
        (" 1e-3 ", 0.001),
        ("+.5", 0.5),
        ("-5.", -5.0),
        ("9" * 5_000, math.inf),
        ("inf", math.inf),
        ("+Infinity", math.inf),
        ("-INF", -math.inf),
        ("--inf", None),
        ("inf-", None),
        ("1_000", None),
        ("٣", None),
        ("0x10", None),
        ("five", None),
        ("", None),
        ("-", None),
        (None, None),
        ([5], None),
    ],
)
def test_a_text_that_shows_a_number_is_that_number(value: object, number: object) -> None:
    found = number_of(value)

    assert (type(found), found) == (type(number), number)


def test_a_text_that_shows_nan_is_nan() -> None:
    assert all(math.isnan(number_of(text) or 0) for text in ("NaN", "-nan", math.nan))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["a", "ü"], '["a", "ü"]'),
        ({"a": True}, '{"a": true}'),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (0.5, "0.5"),
        (True, "True"),
        ("x", "x"),
    ],
)
def test_values_are_searched_as_tables_show_them(value: object, text: str) -> None:
    assert as_text(value) == text


def test_a_row_is_searched_by_its_name_and_a_line_for_each_value() -> None:
    row = {
        "summary_dir": "./Sweep/a",
        "metric/Acc": 0.5,
        "missing": None,
        "user_defined/metric/x": "LARGE",
        "run": "b",
    }

    assert searched_text(row) == "./sweep/a\nsweep/a\nacc=0.5\nmetric/x=large\nb"
    assert [short_name(name) for name in ("metric/a/b", "user_defined/c", "a/metric/d")] == [
        *("a/b", "c", "a/metric/d"),
    ]


def test_rows_of_equal_values_keep_their_order_in_both_directions() -> None:
    rows = [("a", 2), ("b", None), ("c", 1), ("d", 2.0), ("e", math.nan), ("f", "x"), ("g", "2")]

    for is_descending, order in ((False, "cadgfeb"), (True, "fadgceb")):
        found = in_order(rows, lambda row: row[1], is_descending=is_descending)
        assert "".join(name for name, _ in found) == order


@pytest.mark.parametrize(
    ("setting", "is_taken"),
    [
        *((name, True) for name in ("run", "path", "status", "loss", "steps", "tag", "written")),
        *((name, True) for name in ("metric/x", "user_defined/x", "min:x", "best_step:a:b")),
        *((name, False) for name in ("lr", "metrics", "a/metric/x", "mean:x", "min", "min:", ":x")),
    ],
)
def test_a_setting_has_its_own_name_unless_a_column_has_it(setting: str, is_taken: bool) -> None:
    assert setting_column(setting) == (f"user_defined/{setting}" if is_taken else setting)


def test_columns_that_are_read_from_summary_files_are_known() -> None:
    of_files = ["diverged", "started", "duration", "steps", "curve", "pace", "last:x", "max:a:b"]
    others = ["status", "written", "lr", "last", "metric/last:x", "first:x"]

    assert [name for name in [*of_files, *others] if is_of_files(name)] == of_files
