"""The file with the names of the rows of a table of parameters."""

from __future__ import annotations

import pytest

from mindsummary_lightning.fileformat.row_names import decode_row_names, encode_row_names
from mindsummary_lightning.values.statistics_columns import COLUMNS


def test_names_are_read_as_written() -> None:
    names = ["层.weight", "a\nb", 'c"d']
    assert decode_row_names(encode_row_names(names)) == (names, list(COLUMNS))


def test_names_that_utf8_cannot_hold_are_escaped() -> None:
    assert decode_row_names(b'{"rows": ["a\\ud800"], "columns": ["\\udfff"]}') == (
        ["a\\ud800"],
        ["\\udfff"],
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"rows": []}',
        b'{"columns": []}',
        b'{"rows": 1, "columns": []}',
        b'{"rows": [1], "columns": []}',
        b'{"rows": ["a", null], "columns": ["b"]}',
        b'{"rows": ["a"], "columns": ["b", 1]}',
        b'{"rows": "ab", "columns": []}',
        b'{"rows": [], "columns": [1]}',
        b'{"rows": [], "columns": "ab"}',
        b"\xff",
        b"[" * 100_000,
    ],
    ids=lambda content: content[:40].decode("ascii", "replace"),
)
def test_another_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"parameter_statistics\.json must"):
        decode_row_names(content)
