"""The bytes of a file up to its last whole record, from any offset on."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.remote import whole_records as module
from mindsummary_lightning.remote.store import Store
from mindsummary_lightning.remote.whole_records import WholeRecords

RECORDS = [
    b"".join(frame([bytes([number]) * size])) for number, size in enumerate((1, 300, 2, 3, 40, 5000, 7), start=1)
]
DATA = b"".join(RECORDS)
BORDERS = [sum(map(len, RECORDS[:number])) for number in range(len(RECORDS) + 1)]


def _records(path: Path, size: int, border: int = 0) -> WholeRecords:
    return WholeRecords(Store(str(path.parent)), path.name, size, border)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is read in chunks smaller than some of its records."""
    monkeypatch.setattr(module, "CHUNK", 64)
    path = tmp_path / "file"
    path.write_bytes(DATA)
    return path


@pytest.mark.parametrize("size", [0, 5, 16, 17, 18, 400, 5430, len(DATA) - 1, len(DATA)])
def test_they_end_with_the_last_whole_record_from_every_start(path: Path, size: int) -> None:
    end = max(border for border in BORDERS if border <= size)
    for start in [*range(0, end, 97), *range(max(0, end - 1), end)]:
        for border in (0, max(border for border in BORDERS if border <= start)):
            records = _records(path, size, border)
            assert b"".join(records.after(start)) == DATA[start:end]
            assert (records.end, records.damage) == (end, None)


def test_damage_ends_them_and_is_named_with_its_place(path: Path) -> None:
    path.write_bytes(DATA[: BORDERS[2]] + b"\0" * 20 + DATA[BORDERS[2] :])
    records = _records(path, path.stat().st_size)

    assert b"".join(records.after(0)) == DATA[: BORDERS[2]]
    assert records.damage is not None
    assert records.damage.offset == BORDERS[2]
