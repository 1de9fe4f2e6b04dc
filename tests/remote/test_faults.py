"""A store that fails in every way, looked at after every call: at each look a run that opens, without a hole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.remote.rounds import carry
from mindsummary_lightning.remote.run_copies import RunCopies
from mindsummary_lightning.remote.store import Store
from tests.remote.stores import AppendingStore, Faults, RewritingStore, far_steps, files_in_memory

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@pytest.mark.parametrize("kind", [AppendingStore, RewritingStore])
def test_every_look_at_the_far_side_opens_and_has_no_hole(
    kind: type[RewritingStore], tmp_path: Path, times: Callable[[int, int], int], figure: Callable[[int, str], None]
) -> None:
    looks, happened = 0, 0
    seeds = times(2, 20)
    for seed in range(seeds):
        taken, faults = _one_training(kind, tmp_path / str(seed), seed, times(30, 100))
        looks += taken
        happened += faults
    figure(44, f"{kind.__name__}: {seeds} seeds, {looks} looks, {happened} faults: 0 holes, 0 lost")


def _one_training(kind: type[RewritingStore], local: Path, seed: int, looks: int) -> tuple[int, int]:
    faults = kind.faults = Faults(seed)
    kind.store.clear()
    seen: list[int] = []

    wrong: list[Exception] = []

    def look() -> None:
        steps: list[int] = []
        try:
            steps = far_steps(files_in_memory(kind), local)
            assert steps == list(range(1, len(steps) + 1))
        except Exception as error:  # sync would take it for one of the store
            wrong.append(error)
        seen.append(len(steps))

    faults.after_call = look
    destination = f"{kind.name}://run"
    copies = RunCopies(Store(str(local)), Store(destination))
    step = 0
    with SummaryRecord(local, max_file_size=2000) as record:
        while len(seen) < looks:
            for _ in range(faults.random.randrange(20)):
                step += 1
                record.add_value("scalar", "loss", 1.0 / step)
                record.record(step)
            if faults.random.random() < 0.1:  # the sidecar was killed
                copies = RunCopies(Store(str(local)), Store(destination))
            copies.send()
            assert copies.may_succeed or not copies.problems, copies.problems
            assert not wrong, wrong
    pauses: list[float] = []
    carry(copies, 5.0, clock=faults.clock, sleep=lambda s: (pauses.append(s), faults.clock.sleep(s)))  # type: ignore[arg-type, func-returns-value]

    assert not wrong, wrong
    assert not copies.problems
    assert files_in_memory(kind) == {path.name: path.read_bytes() for path in local.iterdir() if path.is_file()}
    if kind is AppendingStore:
        assert seen == sorted(seen), "the copy became shorter"
    return len(seen), len(faults.happened)
