"""Rows 1, 2, 3, 6, 11 and 12: processes that end, by a signal, by themselves or by a power cut."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.fileio.torn_tail import cut_torn_tail
from mindsummary_lightning.values import Tensor, TrainInfo
from tests.faults.processes import kill_victim, run_training_victim, run_victim
from tests.support import (
    lineage_paths,
    read_events,
    read_lineage,
    read_scalars,
    read_values,
    summary_paths,
    whole_payloads,
)

pytestmark = [pytest.mark.slow, pytest.mark.faults]

Times = Callable[[int, int], int]
Figure = Callable[[int, str], None]


def cut_tails(run: Path) -> int:
    """Cut torn tails as the next start does; how many there were."""
    return sum(cut_torn_tail(str(path)) > 0 for path in summary_paths(run))


def assert_prefix(run: Path, last_step: int, has_tensors: bool) -> None:
    """What was recorded is there, in order, and nothing else but the step that was on its way."""
    scalars = read_scalars(run, "loss")
    tensors = [step for step, _, value in read_values(run) if isinstance(value, Tensor)]
    assert [step for step, _ in scalars] == list(range(1, len(scalars) + 1))
    assert [value for _, value in scalars] == pytest.approx(
        [1 / step for step, _ in scalars], rel=1e-7
    )
    assert len(scalars) in (last_step, last_step + 1)
    if has_tensors:
        assert tensors == list(range(5, last_step + 2, 5))[: len(tensors)]
        assert len(tensors) >= last_step // 5


@pytest.mark.parametrize(
    ("row", "by", "elements", "latest", "full"),
    [
        (1, signal.SIGKILL, 0, 1500, 200),
        (1, signal.SIGKILL, 1000, 1500, 200),
        (1, signal.SIGKILL, 3_000_000, 60, 60),
        (2, signal.SIGTERM, 0, 1500, 50),
    ],
    ids=["SIGKILL scalars", "SIGKILL tensors", "SIGKILL large tensors", "SIGTERM scalars"],
)
def test_a_killed_process_loses_nothing_it_had_recorded(
    tmp_path: Path,
    times: Times,
    figure: Figure,
    row: int,
    by: signal.Signals,
    elements: int,
    latest: int,
    full: int,
) -> None:
    # Linux may stop a write between two pages of the file, so that a record on its way can leave a
    # torn tail; what was recorded before is whole all the same, and the next start cuts the tail.
    draw = random.Random(row)
    trials, torn, recorded = times(4 if elements < 10_000 else 2, full), 0, 0
    for trial in range(trials):
        run = tmp_path / str(trial)
        last = kill_victim(
            "record_scalars", run, elements, after_steps=draw.randrange(1, latest), by=by
        )
        torn += cut_tails(run)
        assert_prefix(run, last, has_tensors=elements > 0)
        recorded += last
        for path in summary_paths(run):
            path.unlink()

    among = f" among tensors of {4 * elements:,} bytes" if elements else ""
    figure(
        row, f"{trials} x {by.name}{among}: 0 of {recorded} recorded steps lost, {torn} torn tails"
    )


@pytest.mark.parametrize("signal_name", ["SIGTERM", "SIGINT", "SIGKILL"])
def test_a_signal_to_the_trainer_loses_nothing(
    tmp_path: Path, times: Times, figure: Figure, signal_name: str
) -> None:
    pytest.importorskip("lightning")
    trials, torn = times(1, 50), 0
    if trials == 1 and signal_name != "SIGTERM":
        pytest.skip("in the long form: --full")
    done = run_training_victim("train", tmp_path, trials, signal_name)
    assert not done.returncode, done.stderr

    for trial, last in json.loads(done.stdout.splitlines()[-1]).items():
        run = tmp_path / trial / "run"
        torn += cut_tails(run)
        steps = [step for step, _ in read_scalars(run, "mine")]
        assert steps == list(range(len(steps)))
        assert len(steps) >= last + 1
        assert read_lineage(run)
    figure(
        2,
        (
            f"{trials} x {signal_name} in Trainer.fit with the pair: 0 lost, 0 torn, lineage "
            f"reads {trials} of {trials}"
        ),
    )


@pytest.mark.parametrize("way", ["return", "exception", "sys.exit", "os._exit", "abort", "thread"])
def test_leaving_without_close_loses_nothing(
    tmp_path: Path, times: Times, figure: Figure, way: str
) -> None:
    trials = times(1, 17)
    for trial in range(trials):
        done = run_victim("exit_somehow", tmp_path / str(trial), way)
        assert read_scalars(tmp_path / str(trial), "loss") == [
            (step, float(step)) for step in range(500)
        ], done.stderr

    figure(6, f"{trials} x {way} without close: 0 of {500 * trials} lost")


def test_a_power_cut_at_any_byte_leaves_a_prefix_that_can_be_gone_on_with(
    tmp_path: Path, times: Times, figure: Figure
) -> None:
    with SummaryRecord(tmp_path / "whole") as record:
        for step in range(20):
            record.add_scalar("a", float(step), step)
            record.add_tensor("t", [1.0] * step, step)
    (source,) = summary_paths(tmp_path / "whole")
    written = source.read_bytes()
    payloads = whole_payloads(source)
    path = tmp_path / "cut_MS"
    # Records of a scalar have 48 bytes: every 13th byte of the file is each byte of such a record
    # in turn.
    sizes = range(0, len(written) + 1, times(13, 1))
    for size in sizes:
        for zeros in (0, 7, 4096):  # blocks that were promised and never came
            path.write_bytes(written[:size] + bytes(zeros))
            cut_torn_tail(str(path))
            kept = list(RecordScanner(str(path)))
            assert kept == payloads[: len(kept)]
            assert path.stat().st_size == sum(map(len, kept)) + 16 * len(kept)
            # at most the one record that was cut
            assert len(written[:size]) - path.stat().st_size < 200

    figure(
        3,
        (
            f"write log cut at each of {len(sizes)} bytes, with and without zeros behind: always "
            "a whole prefix"
        ),
    )


def test_lineage_is_readable_whenever_its_writer_is_killed(
    tmp_path: Path, times: Times, figure: Figure
) -> None:
    draw = random.Random(12)
    trials = times(5, 200)
    for trial in range(trials):
        run = tmp_path / str(trial)
        last = kill_victim("record_lineage", run, after_steps=draw.randrange(1, 60))
        epochs = [
            event.what.epoch for event in read_lineage(run) if isinstance(event.what, TrainInfo)
        ]
        assert epochs in ([last], [last + 1])
        assert len(lineage_paths(run)) == 1

    figure(12, f"{trials} x SIGKILL while lineage is replaced: {trials} of {trials} files whole")


def test_a_resumed_run_cuts_the_tail_and_keeps_every_whole_record(
    tmp_path: Path, figure: Figure
) -> None:
    with SummaryRecord(tmp_path / "old") as record:
        for step in range(3):
            record.add_scalar("a", float(step), step)
    (source,) = summary_paths(tmp_path / "old")
    written = source.read_bytes()
    whole = [len(written) - 3 * 48, len(written) - 2 * 48]
    tails = range(whole[1], len(written))
    for size in tails:
        run = tmp_path / f"run{size}"
        run.mkdir()
        (run / source.name).write_bytes(written[:size])
        with SummaryRecord(run) as record:
            record.add_scalar("a", 9.0, 9)
        assert read_scalars(run, "a")[-1] == (9, 9.0)
        assert (
            read_scalars(run, "a")[:-1]
            == [(step, float(step)) for step in range(2)][: len(read_events(run)) - 3]
        )
        assert len(summary_paths(run)) == 2

    figure(
        11, f"{len(tails)} torn tails: each cut before the new file is made, all whole records kept"
    )
