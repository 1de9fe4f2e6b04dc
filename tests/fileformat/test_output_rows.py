"""The file with the descriptions of the rows of output statistics."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mindsummary_lightning.fileformat.output_rows import decode_output_rows, encode_output_rows
from mindsummary_lightning.values.step_chain import COLUMNS, OutputRow

_ROWS = [
    OutputRow("forward", "层.0", "Linear", 2, "output", "0.x", "bfloat16", (2, 3), "net.py:12"),
    OutputRow("loss", ""),
    OutputRow("data", "x", dtype="int64", shape=(4,)),
]
_ROW = {"link": "loss", "name": "x"}


def test_rows_are_read_as_written_and_empty_fields_stay_out_of_the_file() -> None:
    content = encode_output_rows(_ROWS)

    assert decode_output_rows(content) == _ROWS
    assert json.loads(content) == {
        "tensor": "output_statistics",
        "columns": [*COLUMNS],
        "rows": [
            {
                "link": "forward",
                "name": "层.0",
                "kind": "Linear",
                "call": 2,
                "port": "output",
                "path": "0.x",
                "dtype": "bfloat16",
                "shape": [2, 3],
                "line": "net.py:12",
            },
            {"link": "loss", "name": ""},
            {"link": "data", "name": "x", "dtype": "int64", "shape": [4]},
        ],
    }


def _content(row: Any, columns: Any = COLUMNS) -> bytes:
    return json.dumps({"columns": columns, "rows": [_ROW, row]}).encode()


def test_names_that_utf8_cannot_hold_are_escaped() -> None:
    assert decode_output_rows(_content({**_ROW, "name": "a\ud800"}))[1].name == "a\\ud800"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b"[]",
        b'{"rows": []}',
        json.dumps({"columns": COLUMNS}).encode(),
        _content(_ROW, COLUMNS[:-1]),
        _content(_ROW, [*reversed(COLUMNS)]),
        _content(3),
        _content({"name": "x"}),
        _content({**_ROW, "new": 1}),
        _content({**_ROW, "shape": 3}),
        _content({**_ROW, "shape": ["a"]}),
        _content({**_ROW, "call": "1"}),
        *[
            _content({**_ROW, name: 1})
            for name in ("link", "name", "kind", "port", "path", "dtype", "line")
        ],
    ],
    ids=lambda content: content[-60:].decode("ascii", "replace"),
)
def test_another_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^output_statistics\.json must be JSON with the keys"):
        decode_output_rows(content)
