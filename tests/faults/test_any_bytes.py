"""Row 21, the reader's half: any bytes give something or the one documented error, and ``repair``
makes them readable.

``finds.json`` holds what the fuzzer of ``fuzz_reader.py`` found, and its neighbours, in the words
of what went wrong.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.any_bytes import check_any_bytes, write_run
from tests.faults.fuzz_inputs import (
    RAW_LINEAGE,
    RAW_SUMMARY,
    mutated_payload,
    pack,
    run_of,
    seeds,
    unpack,
)

pytestmark = pytest.mark.faults

SEEDS = list(seeds())
FINDS = {
    name: bytes.fromhex(data)
    for name, data in json.loads(
        Path(__file__).with_name("finds.json").read_text(encoding="utf-8")
    ).items()
}


@pytest.mark.parametrize(
    "seed", [*SEEDS, *FINDS.values()], ids=[*map(str, range(len(SEEDS))), *FINDS]
)
def test_whole_runs_and_what_a_fuzzer_found_are_read_in_every_way_or_refused(
    tmp_path: Path, seed: bytes
) -> None:
    write_run(tmp_path / "run", *run_of(seed))

    check_any_bytes(tmp_path / "run")


@settings(deadline=None)
@given(is_lineage=st.booleans(), data=st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, is_lineage: bool, data: bytes
) -> None:
    run = tmp_path_factory.mktemp("any") / "run"
    write_run(run, *run_of(bytes([RAW_LINEAGE if is_lineage else RAW_SUMMARY]) + data))

    check_any_bytes(run)


@pytest.mark.slow
def test_whole_records_with_odd_fields_are_read_or_refused(
    tmp_path: Path, times: Callable[[int, int], int], figure: Callable[[int, str], None]
) -> None:
    draw = random.Random(22)
    framed = [seed for seed in SEEDS if seed[0] not in (RAW_SUMMARY, RAW_LINEAGE)]
    trials = times(300, 20_000)
    for _ in range(trials):
        seed = draw.choice(framed)
        payloads = unpack(seed[1:])
        for _ in range(draw.randrange(1, 4)):
            place = draw.randrange(len(payloads))
            changed = mutated_payload(
                payloads[place][1], draw, lambda data, _: some_bytes_changed(data, draw)
            )
            payloads[place] = (draw.random() < 0.2, changed)
        write_run(tmp_path / "run", *run_of(seed[:1] + pack(payloads)))
        check_any_bytes(tmp_path / "run")
        shutil.rmtree(tmp_path / "run")

    figure(
        21,
        (
            f"{trials} runs with changed protobuf fields under right CRCs: read, or "
            "DamagedFileError and repaired"
        ),
    )


def some_bytes_changed(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.randbytes(draw.randrange(4)) + data[at + draw.randrange(4) :]
