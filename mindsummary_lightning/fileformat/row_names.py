"""Encode and decode the JSON file that names the rows of parameter statistics."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mindsummary_lightning.values.statistics_columns import COLUMNS, STATISTICS_TAG
from mindsummary_lightning.values.text import utf8_json

ROW_NAMES_FILE = f"{STATISTICS_TAG}.json"


def encode_row_names(parameters: Sequence[str]) -> bytes:
    """Encode the names of parameters (rows) and of columns as JSON.

    A table that is recorded later has as many rows as there are names.
    """
    names = {"tensor": STATISTICS_TAG, "columns": COLUMNS, "rows": [*parameters]}
    return json.dumps(names, indent=0).encode()


def decode_row_names(content: bytes) -> tuple[list[str], list[str]]:
    """Decode the names of the rows and of the columns of parameter statistics.

    Raises:
        ValueError: the content is not such a file.
    """
    try:
        names = json.loads(content)
        rows, columns = names["rows"], names["columns"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f'{ROW_NAMES_FILE} must be JSON with the keys "rows" and "columns": {error}'
        ) from error
    if not _are_names(rows) or not _are_names(columns):
        raise ValueError(f'{ROW_NAMES_FILE} must have lists of names under "rows" and "columns"')
    return utf8_json(rows), utf8_json(columns)


def _are_names(names: object) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)
