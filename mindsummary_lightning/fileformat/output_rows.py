"""Encode and decode the JSON file that names the rows of output statistics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mindsummary_lightning.values.step_chain import COLUMNS, OUTPUT_STATISTICS_TAG, OutputRow
from mindsummary_lightning.values.text import utf8_json

OUTPUT_ROWS_FILE = f"{OUTPUT_STATISTICS_TAG}.json"


def encode_output_rows(rows: Sequence[OutputRow]) -> bytes:
    """Encode the descriptions of all rows, and the names of the columns, as JSON.

    A table that is recorded later has as many rows as there are descriptions.
    """
    described = list(map(_described, rows))
    content = {"tensor": OUTPUT_STATISTICS_TAG, "columns": COLUMNS, "rows": described}
    return json.dumps(content, indent=0).encode()


def _described(row: OutputRow) -> dict[str, Any]:
    """Return the name of a row and its fields that are not empty."""
    return {name: value for name, value in asdict(row).items() if value or name == "name"}


def decode_output_rows(content: bytes) -> list[OutputRow]:
    """Decode the descriptions of the rows of output statistics.

    Raises:
        ValueError: the content is not such a file, or its columns differ from those of this
            version.
    """
    try:
        found = utf8_json(json.loads(content))
        rows = [
            OutputRow(**{**row, "shape": tuple(map(int, row.get("shape", ())))})
            for row in found["rows"]
        ]
        if found["columns"] != [*COLUMNS]:
            raise ValueError(f"the columns must be {[*COLUMNS]}, got {found['columns']}")
        texts = (
            text
            for row in rows
            for text in (row.link, row.name, row.kind, row.port, row.path, row.dtype, row.line)
        )
        if not all(isinstance(text, str) for text in texts) or not all(
            isinstance(row.call, int) for row in rows
        ):
            raise ValueError("each row must have an int as its call and texts in its other fields")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f'{OUTPUT_ROWS_FILE} must be JSON with the keys "rows" and "columns": {error}'
        ) from error
    return rows
