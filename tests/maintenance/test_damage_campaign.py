"""A thousand damaged files: reader, ``verify`` and ``repair`` against a scan that tries every
offset.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from crc32c import crc32c

from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.maintenance.repair import repair_run
from mindsummary_lightning.maintenance.verify import verify_run
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.values import Tensor
from tests.reading.runs import histogram, values_at, write_summary


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _judge(data: bytes) -> tuple[list[tuple[int, int]], int]:
    """Start and end of every complete record, trying every offset, and where the last stretch
    without one begins.
    """
    records, at, end = [], 0, 0
    while at + 16 < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        stop = at + 16 + length
        if (
            length
            and stop <= len(data)
            and struct.unpack_from("<I", data, at + 8)[0] == _masked(data[at : at + 8])
            and struct.unpack_from("<I", data, stop - 4)[0] == _masked(data[at + 12 : stop - 4])
        ):
            records.append((at, stop))
            at = end = stop
        else:
            at += 1
    return records, end


def _flip(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _zero(data: bytearray, chance: random.Random) -> None:
    begin = chance.randrange(len(data))
    data[begin : begin + 512] = bytes(len(data[begin : begin + 512]))


def _lose(data: bytearray, chance: random.Random) -> None:
    begin = chance.randrange(len(data))
    del data[begin : begin + chance.choice((1, 7, 100, 512, 2000))]


def _insert(data: bytearray, chance: random.Random) -> None:
    begin = chance.randrange(len(data))
    data[begin:begin] = chance.randbytes(chance.choice((1, 16, 300)))


def _repeat(data: bytearray, chance: random.Random) -> None:
    begin = chance.randrange(len(data))
    data += data[begin : begin + chance.choice((50, 512, 3000))]


def _tear(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(1, len(data)) :]


def _tear_and_join(data: bytearray, chance: random.Random) -> None:
    whole = bytes(data)
    _tear(data, chance)
    data += whole


_KINDS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(_flip, _zero, _lose, _insert, _repeat, _tear, _tear_and_join),
)


@pytest.mark.slow
def test_what_can_be_read_is_read_said_and_kept_whatever_the_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: Callable[[int, int], int]
) -> None:
    damages = times(300, 1200)
    # thousands of them, and no power cut is tried here
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    values = {"t": Tensor(np.zeros(300, np.float32)), "h": histogram(1, 2, 3)}
    events = [
        values_at(step, {"x": float(step), **(values if step % 5 == 0 else {})})
        for step in range(1, 16)
    ]
    whole = write_summary(tmp_path / "whole", events).read_bytes()
    known = {event: step for step, event in enumerate(events, start=1)}
    silent, said = 0, 0
    for seed in range(damages):
        chance = random.Random(seed)
        data = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 4))):
            chance.choice(_KINDS)(data, chance)
            data = data or bytearray(b"?")
        run = tmp_path / str(seed)
        run.mkdir()
        path = run / "events.out.events.summary.1700000000.0.h_MS"
        path.write_bytes(data)
        records, end = _judge(bytes(data))
        readable = b"".join(data[begin:stop] for begin, stop in records)
        is_damaged = len(readable) < len(data)
        steps = sorted(
            {
                known[record]
                for begin, stop in records
                if (record := bytes(data[begin:stop])) in known
            }
        )

        watched = FollowedRun(str(run))
        watched.refresh()
        assert (watched.scalars("x").steps.tolist() if watched.tags()["scalar"] else []) == steps, (
            seed
        )

        error, read = _read(run)
        if error is not None:
            assert is_damaged, seed
            assert error.offset == next((stop for _, stop in _runs_of(records)), 0), seed
            said += 1
        else:
            # Silence is for an incomplete last record only, and nothing is missing then.
            assert read == steps, seed
            assert _runs_of(records) == ([(0, end)] if records else []), seed
            silent += is_damaged

        assert (
            bool([finding for finding in verify_run(str(run)) if finding.is_damage]) == is_damaged
        ), seed

        repaired = repair_run(str(run))
        assert bool(repaired) == is_damaged, seed
        assert path.read_bytes() == (readable or bytes(data)), seed
        if repaired and records:
            assert (repaired[0].records, repaired[0].dropped) == (
                len(records),
                len(data) - len(readable),
            ), seed
            assert Path(str(repaired[0].backup)).read_bytes() == data, seed
            assert SummaryReader(run).tags() is not None
    assert said > damages // 2
    assert silent > damages // 25


def _read(run: Path) -> tuple[DamagedFileError | None, list[int]]:
    reader = SummaryReader(run)
    try:
        return None, reader.scalars("x").steps.tolist() if reader.tags()["scalar"] else []
    except DamagedFileError as error:
        return error, []


def _runs_of(records: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches of neighbouring records; the first begins the file, or is empty at its
    beginning.
    """
    stretches: list[tuple[int, int]] = []
    for begin, stop in records:
        if stretches and stretches[-1][1] == begin:
            stretches[-1] = (stretches[-1][0], stop)
        else:
            stretches.append((begin, stop))
    return stretches if not stretches or stretches[0][0] == 0 else [(0, 0), *stretches]
