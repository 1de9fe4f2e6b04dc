"""``output_statistics.json``: the meaning of the rows of output statistics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mindsummary_lightning.values.step_chain import COLUMNS, OUTPUT_STATISTICS_TAG, OutputRow
from mindsummary_lightning.values.text import utf8_json

OUTPUT_ROWS_FILE = f"{OUTPUT_STATISTICS_TAG}.json"


def encode_output_rows(rows: Sequence[OutputRow]) -> bytes:
    """Encode the meaning of all rows, and the names of the columns.

    A table has as many of them as it has rows.
    """
    described = list(map(_described, rows))
    content = {"tensor": OUTPUT_STATISTICS_TAG, "columns": COLUMNS, "rows": described}
    return json.dumps(content, indent=0).encode()


def _described(row: OutputRow) -> dict[str, Any]:
    """The fields of a row that are not empty, and its name."""
    return {name: value for name, value in asdict(row).items() if value or name == "name"}


def decode_output_rows(content: bytes) -> list[OutputRow]:
    """The rows.

    Raises:
        ValueError: this is not such a file, or one of other columns.
    """
    try:
        found = utf8_json(json.loads(content))
        rows = [
            OutputRow(**{**row, "shape": tuple(map(int, row.get("shape", ())))})
            for row in found["rows"]
        ]
        if found["columns"] != [*COLUMNS]:
            raise ValueError(f"its columns are {found['columns']}")
        texts = (
            text
            for row in rows
            for text in (row.link, row.name, row.kind, row.port, row.path, row.dtype, row.line)
        )
        if not all(isinstance(text, str) for text in texts) or not all(
            isinstance(row.call, int) for row in rows
        ):
            raise ValueError("a name is not a text")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f'{OUTPUT_ROWS_FILE} must be JSON with the keys "rows" and "columns": {error}'
        ) from error
    return rows
