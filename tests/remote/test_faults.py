"""A store that fails in every way, looked at after every call: at each look a run that opens,
without a hole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import fsspec
import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.errors import MindSummaryError
from mindsummary_lightning.remote.run_copies import RunCopies, Store
from tests.remote.stores import (
    Faults,
    FaultyRequests,
    RewritingStore,
    far_steps,
    files_in_memory,
    files_on_server,
)

pytestmark = [pytest.mark.faults, pytest.mark.slow]

Files = Callable[[], dict[str, bytes]]


def test_every_look_at_the_far_side_opens_and_has_no_hole(
    tmp_path: Path, times: Callable[[int, int], int], figure: Callable[[int, str], None]
) -> None:
    looks, happened, seeds = 0, 0, times(1, 20)
    for seed in range(seeds):
        RewritingStore.faults = Faults(seed)
        RewritingStore.store.clear()
        files, local = partial(files_in_memory, RewritingStore), tmp_path / str(seed)
        seen = _one_training("rewriting://run", RewritingStore.faults, files, local, times(30, 100))
        looks, happened = looks + len(seen), happened + len(RewritingStore.faults.happened)
    figure(
        44, f"a store in memory: {seeds} seeds, {looks} looks, {happened} faults: 0 holes, 0 lost"
    )


def test_every_look_at_an_object_on_s3_opens_and_has_no_hole(
    s3: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: Callable[[int,
    int], int],
    figure: Callable[[int, str], None],
) -> None:  # fmt: skip
    client = fsspec.get_filesystem_class("s3")
    client.clear_instance_cache()
    monkeypatch.setattr(client, "retries", 1)  # the driver's own attempts would hide ours
    config = {"retries": {"max_attempts": 0}, "read_timeout": FaultyRequests.PATIENCE_S}
    monkeypatch.setitem(fsspec.config.conf, "s3", {"config_kwargs": config})
    looks, happened = 0, 0
    seeds = times(1, 20)
    for seed in range(seeds):
        address, faults = s3(), Faults(seed)
        monkeypatch.setattr(FaultyRequests, "faults", faults)
        files = partial(files_on_server, address)
        seen = _one_training(address, faults, files, tmp_path / str(seed), times(20, 60))
        assert seen == sorted(seen), "the copy became shorter"
        looks, happened = looks + len(seen), happened + len(faults.happened)
        monkeypatch.setattr(FaultyRequests, "faults", None)
    client.clear_instance_cache()
    figure(44, f"S3: {seeds} seeds, {looks} looks, {happened} faults: 0 holes, 0 lost")


def _one_training(address: str, faults: Faults, files: Files, local: Path, looks: int) -> list[int]:
    """Record, copy and look until there are enough looks, then copy the rest; return the last step
    at each look.
    """
    seen: list[int] = []
    wrong: list[Exception] = []

    def look() -> None:
        steps: list[int] = []
        try:
            steps = far_steps(files(), local)
            assert steps == list(range(1, len(steps) + 1))
        except Exception as error:  # sync would take it for one of the store
            wrong.append(error)
        seen.append(len(steps))

    faults.after_call = look
    copies, step = RunCopies(Store(str(local)), Store(address)), 0
    with SummaryRecord(local, max_file_size=2000) as record:
        while len(seen) < looks:
            for _ in range(faults.random.randrange(20)):
                step += 1
                record.add_value("scalar", "loss", 1.0 / step)
                record.record(step)
            # elsewhere half of it may be there, which nothing knows again
            if address.startswith("s3:"):
                (local / "hparams.yaml").write_text(f"step: {step}", encoding="utf-8")
            if faults.random.random() < 0.1:  # the sidecar was killed
                copies = RunCopies(Store(str(local)), Store(address))
            copies.send()
            assert not any(
                isinstance(problem, MindSummaryError) for problem in copies.problems.values()
            ), copies.problems
            assert not wrong, wrong
    while copies.send() or copies.problems:
        pass

    assert not wrong, wrong
    assert not copies.problems
    assert files() == {path.name: path.read_bytes() for path in local.iterdir() if path.is_file()}
    return seen
