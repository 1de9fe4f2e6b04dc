"""What is sent, in which order, and what is left alone."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.errors import ForeignFileError, MindSummaryError
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.remote.run_copies import RunCopies
from mindsummary_lightning.remote.store import Store
from tests.remote.stores import AppendingStore, Faults, RewritingStore, files_in_memory
from tests.support import summary_paths


def _record(directory: Path, first: int = 1, last: int = 10, **options: int) -> None:
    with SummaryRecord(directory, **options) as record:
        for step in range(first, last + 1):
            record.add_value("scalar", "loss", 1.0 / step)
            record.record(step)


def _sent(source: Path | str, destination: Path | str) -> RunCopies:
    copies = RunCopies(Store(str(source)), Store(str(destination)))
    copies.send()
    return copies


def _names(directory: Path) -> list[str]:
    paths = (path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    return sorted(name for name in paths if not name.endswith(".mindsummary-sync"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a file of every kind, in a directory of runs."""
    run = tmp_path / "runs" / "digits" / "version_0"
    _record(run, max_file_size=300)
    for name in ("hparams.yaml", "ckpt_dir/net_1_step.ckpt", "ckpt_dir/train_metadata.json", "export_1/tensor/a_1.npy"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(name)
    return run


def test_a_directory_of_runs_is_there_file_by_file(run: Path, tmp_path: Path) -> None:
    copies = _sent(tmp_path / "runs", tmp_path / "far")

    assert (copies.problems, copies.missing, len(copies.runs)) == ({}, 0, 1)
    assert _names(tmp_path / "far") == _names(tmp_path / "runs")
    assert SummaryReader(tmp_path / "far/digits/version_0").scalars("loss").steps.tolist() == [*range(1, 11)]


def test_a_directory_that_cannot_be_listed_is_warned_of(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "runs" / "closed").mkdir()
    real_scandir = os.scandir

    def refusing(path: str) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real_scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    copies = _sent(tmp_path / "runs", tmp_path / "far")
    copies.send()

    assert (copies.problems, len(copies.runs)) == ({}, 1)
    (message,) = caplog.messages
    assert message.startswith("skipped a directory that cannot be listed")


def test_what_belongs_to_no_run_or_to_the_program_stays(run: Path, tmp_path: Path) -> None:
    ours = _names(run)
    for name in ("checkpoints/last.ckpt", ".damaged/old", ".mindsummary-1-00000000.tmp"):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("not of the run")
    (tmp_path / "runs" / "notes.txt").write_text("beside it")
    (run / "link").symlink_to(tmp_path)
    os.mkfifo(run / "events.out.events.summary.9.0.host_MS")

    _sent(tmp_path / "runs", tmp_path / "far")

    assert _names(tmp_path / "far" / "digits" / "version_0") == ours
    assert not (tmp_path / "far" / "notes.txt").exists()


def test_a_second_round_sends_what_is_new_and_nothing_else(run: Path, tmp_path: Path) -> None:
    far = Store(str(tmp_path / "far"))
    copies = RunCopies(Store(str(run)), far)
    copies.send()
    before = far.sent

    assert not copies.send()
    assert far.sent == before
    with open(run / "hparams.yaml", "a") as file:
        file.write("lr: 0.1")
    assert copies.send()
    assert (tmp_path / "far/hparams.yaml").read_text() == "hparams.yamllr: 0.1"


def test_an_incomplete_record_waits_until_it_is_complete(tmp_path: Path) -> None:
    _record(tmp_path / "run")
    (path,) = summary_paths(tmp_path / "run")
    data = path.read_bytes()
    for end in (0, 5, len(data) - 1):
        path.write_bytes(data[:end])
        _sent(tmp_path / "run", tmp_path / "far")
        copied = (tmp_path / "far" / path.name).read_bytes() if (tmp_path / "far").exists() else b""
        assert data.startswith(copied)
        assert len(copied) <= end
        assert not copied or SummaryReader(tmp_path / "far").tags()
    path.write_bytes(data)

    _sent(tmp_path / "run", tmp_path / "far")

    assert (tmp_path / "far" / path.name).read_bytes() == data


@pytest.mark.parametrize("end", [1, 11, 13, -17, -5, -1])
def test_a_copy_that_ends_within_a_record_is_continued(end: int, tmp_path: Path) -> None:
    _record(tmp_path / "run")
    (path,) = summary_paths(tmp_path / "run")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / path.name).write_bytes(path.read_bytes()[:end])

    assert not _sent(tmp_path / "run", tmp_path / "far").problems
    assert (tmp_path / "far" / path.name).read_bytes() == path.read_bytes()


def test_an_attempt_that_failed_halfway_is_continued_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _record(tmp_path / "run")
    AppendingStore.store.clear()
    faults = Faults(0, 0.0)
    calls: list[int] = []

    def half_of_the_write(effect: Callable[[float], object]) -> object:
        calls.append(len(calls))
        is_write = len(calls) == 2  # after a listing
        answer = effect(0.5 if is_write else 1.0)
        if is_write:
            raise OSError("500")
        return answer

    monkeypatch.setattr(faults, "call", half_of_the_write)
    monkeypatch.setattr(AppendingStore, "faults", faults)
    copies = RunCopies(Store(str(tmp_path / "run")), Store("appending://run"))
    copies.send()
    (path,) = summary_paths(tmp_path / "run")
    assert len(files_in_memory(AppendingStore)[path.name]) == path.stat().st_size // 2
    copies.send()

    assert not copies.problems
    assert files_in_memory(AppendingStore) == {path.name: path.read_bytes()}


def test_what_somebody_removed_there_is_sent_again_with_what_is_new(run: Path, tmp_path: Path) -> None:
    newest = summary_paths(run)[-1]
    data = newest.read_bytes()
    newest.write_bytes(data[:-3])
    copies = _sent(tmp_path / "runs", tmp_path / "far")
    shutil.rmtree(tmp_path / "far")
    newest.write_bytes(data)
    copies.send()
    copies.send()

    assert not copies.problems
    assert _names(tmp_path / "far") == _names(tmp_path / "runs")


def test_a_newer_file_does_not_overtake_one_that_could_not_be_sent(tmp_path: Path) -> None:
    _record(tmp_path / "run", max_file_size=150)
    first, second, *newer = summary_paths(tmp_path / "run")
    assert newer
    damaged = bytearray(second.read_bytes())
    damaged[-1] ^= 1
    second.write_bytes(damaged)

    copies = _sent(tmp_path / "run", tmp_path / "far")

    assert _names(tmp_path / "far") == sorted([first.name, second.name])
    assert 0 < (tmp_path / "far" / second.name).stat().st_size < second.stat().st_size
    (problem,) = copies.problems.values()
    assert "mindsummary repair" in str(problem)
    assert copies.missing > sum(path.stat().st_size for path in newer)
    assert isinstance(problem, MindSummaryError)


def test_a_file_that_grew_after_it_was_listed_with_its_successor_is_complete_before_that(tmp_path: Path) -> None:
    _record(tmp_path / "run", max_file_size=250)
    first, *newer = summary_paths(tmp_path / "run")
    data = first.read_bytes()
    assert newer

    class ListedTooSoon(Store):
        def list(self, below: str = "") -> dict[str, dict[str, Any]]:
            first.write_bytes(data[:100])
            listed = super().list(below)
            first.write_bytes(data)
            return listed

    RunCopies(ListedTooSoon(str(tmp_path / "run")), Store(str(tmp_path / "far"))).send()

    assert (tmp_path / "far" / first.name).read_bytes() == data
    assert (tmp_path / "far" / newer[0].name).exists()


@pytest.mark.slow
def test_a_run_goes_to_s3_while_it_grows_and_comes_back(run: Path, tmp_path: Path, s3: Callable[[], str]) -> None:
    address = s3()
    copies = RunCopies(Store(str(tmp_path / "runs")), Store(address))
    for name in ("digits/version_0", "digits/version_1", "digits/version_1"):
        _record(tmp_path / "runs" / name, 11, 20)
        copies.send()
        assert not copies.problems

    assert not _sent(address, tmp_path / "back").problems
    assert _names(tmp_path / "back") == _names(tmp_path / "runs")
    for name in _names(tmp_path / "back"):
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "runs" / name).read_bytes()


@pytest.mark.parametrize("change", [lambda data: b"other" + data[5:], lambda data: data + b"longer"])
def test_a_file_that_is_not_the_beginning_of_ours_is_not_touched(change: object, tmp_path: Path) -> None:
    _record(tmp_path / "run")
    (path,) = summary_paths(tmp_path / "run")
    foreign = change(path.read_bytes())  # type: ignore[operator]
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / path.name).write_bytes(foreign)

    copies = _sent(tmp_path / "run", tmp_path / "far")

    (problem,) = copies.problems.values()
    assert isinstance(problem, ForeignFileError)
    assert path.name in str(problem)
    assert (tmp_path / "far" / path.name).read_bytes() == foreign
    assert copies.missing == path.stat().st_size


def test_a_small_file_of_somebody_else_is_not_touched_and_keeps_nothing_else_back(run: Path, tmp_path: Path) -> None:
    far = tmp_path / "far"
    far.mkdir()
    (far / "hparams.yaml").write_text("mine")

    copies = _sent(run, far)

    assert (far / "hparams.yaml").read_text() == "mine"
    assert list(copies.problems) == ["hparams.yaml"]
    assert _names(far) == _names(run)


def test_a_file_that_was_replaced_is_replaced_by_a_command_that_starts_anew(run: Path, tmp_path: Path) -> None:
    for text in ("{1: a}", "{1: b, 2: c}", "{3: d}"):
        (run / "ckpt_dir/train_metadata.json").write_text(text)
        assert not _sent(run, tmp_path / "far").problems
        assert (tmp_path / "far/ckpt_dir/train_metadata.json").read_text() == text
    (tmp_path / "far/ckpt_dir/train_metadata.json").write_text("changed there")
    (run / "ckpt_dir/train_metadata.json").write_text("{4: e}")

    assert _sent(run, tmp_path / "far").problems
    assert (tmp_path / "far/ckpt_dir/train_metadata.json").read_text() == "changed there"


def test_an_object_whose_name_leads_out_of_the_destination_is_not_brought(tmp_path: Path) -> None:
    _record(tmp_path / "run")

    class Hostile(Store):
        def list(self, below: str = "") -> dict[str, dict[str, Any]]:
            return {f"../run/{name}": file for name, file in super().list(below).items()}

    copies = RunCopies(Hostile(str(tmp_path / "run")), Store(str(tmp_path / "far" / "deep")))
    copies.send()

    assert not copies.runs
    assert not (tmp_path / "far").exists()


def test_nothing_beside_the_record_of_what_was_sent_is_added(run: Path, tmp_path: Path) -> None:
    _sent(run, tmp_path / "far")

    hidden = [path for path in (tmp_path / "far").rglob(".*") if path.is_file()]
    assert [path.name for path in hidden] == [".mindsummary-sync"]
    assert "hparams.yaml" in json.loads(hidden[0].read_text())


def test_copies_are_as_private_as_what_is_recorded(run: Path, tmp_path: Path) -> None:
    _sent(run, tmp_path / "far")

    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "far").rglob("*") if path.is_file()} == {0o600}


def test_a_run_that_a_writer_holds_open_is_being_recorded(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path / "run") as record:
        record.add_value("scalar", "loss", 1.0)
        record.record(1)
        copies = _sent(tmp_path, "memory://a-run-being-recorded")
        assert copies.is_recorded() is True
    assert copies.is_recorded() is False
    assert _sent("memory://a-run-being-recorded", tmp_path / "back").is_recorded() is None


def test_from_wherever_a_copy_ends_the_rest_up_to_the_last_whole_record_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "run/events.out.events.summary.1.0.h_MS"
    path.parent.mkdir()
    records = [b"".join(frame([bytes([size % 251]) * size])) for size in (1, 300, 2, 3, 40, 5000, 7, 2_000_000, 1)]
    path.write_bytes(data := b"".join(records) + b"".join(frame([b"torn"]))[:-1])
    whole = len(data) - 19
    borders = [sum(map(len, records[:number])) for number in range(len(records) + 1)]
    copies = RunCopies(Store(str(tmp_path / "run")), Store(str(tmp_path / "far")))
    with path.open("rb") as file:
        for start in [*borders, *range(1, whole, 399_989), whole - 1]:
            for border in (0, max(border for border in borders if border <= start), whole):
                copies._borders[path.name] = border
                assert b"".join(copies._records(path.name, file, start)) == data[start:whole]
                assert copies._borders[path.name] == whole
    assert not copies.problems


def test_what_costs_a_whole_file_waits_until_it_is_three_times_as_long_or_for_nine_rounds(tmp_path: Path) -> None:
    RewritingStore.store.clear()
    RewritingStore.faults = Faults(0, 0.0)
    far = Store("rewriting://run")
    copies = RunCopies(Store(str(tmp_path)), far)
    sent = []  # bytes in each round
    with SummaryRecord(tmp_path) as record:
        for step, records in enumerate([1, *[50] * 30, *[1] * 30]):
            for _ in range(records):
                record.add_value("scalar", "loss", 1.0)
                record.record(step)
            before = far.sent
            copies.send(is_last=False)
            sent.append(far.sent - before)
    (path,) = summary_paths(tmp_path)
    rounds = [number for number, size in enumerate(sent) if size]
    quick = [number for number in rounds if number <= 12]
    assert sum(sent[number] for number in quick) <= 1.5 * sent[quick[-1]]
    assert {later - sooner for sooner, later in pairwise(rounds) if sooner >= 30} == {10}
    assert copies.missing > 0
    copies.send()
    assert copies.missing == 0
    assert files_in_memory(RewritingStore) == {path.name: path.read_bytes()}


def test_a_small_file_whose_replacement_fails_again_and_again_is_still_known(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = tmp_path / "far"
    _sent(run, far)
    put = Store.put

    def failing(self: Store, name: str, *arguments: Any) -> None:
        if name == "hparams.yaml":
            raise OSError("500")
        put(self, name, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", failing)
        for number in range(11):
            (run / "hparams.yaml").write_text(f"version {number}")
            assert [type(problem) for problem in _sent(run, far).problems.values()] == [OSError]

    assert not _sent(run, far).problems
    assert (far / "hparams.yaml").read_text() == "version 10"


def _meanwhile(monkeypatch: pytest.MonkeyPatch, name: str, happen: Callable[[], object]) -> None:
    """Let something happen before a file is put for the first time."""
    put, waiting = Store.put, [happen]

    def interrupted(self: Store, path: str, *arguments: Any) -> None:
        if path == name and waiting:
            waiting.pop()()
        put(self, path, *arguments)

    monkeypatch.setattr(Store, "put", interrupted)


def test_a_small_file_that_is_written_in_place_while_it_is_sent_is_known_again(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _meanwhile(monkeypatch, "hparams.yaml", lambda: (run / "hparams.yaml").write_text("written now!"))
    _sent(run, tmp_path / "far")
    (run / "hparams.yaml").write_text("and once more")

    assert not _sent(run, tmp_path / "far").problems
    assert (tmp_path / "far/hparams.yaml").read_text() == "and once more"


def test_what_one_command_sent_is_known_if_another_one_wrote_its_own_list_meanwhile(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = json.dumps({"hparams.yaml": ["1:of another command"]})
    _meanwhile(monkeypatch, "hparams.yaml", lambda: (tmp_path / "far/.mindsummary-sync").write_text(others))
    _sent(run, tmp_path / "far")
    (run / "hparams.yaml").write_text("another")

    assert not _sent(run, tmp_path / "far").problems
    assert "1:of another command" in (tmp_path / "far/.mindsummary-sync").read_text()


@pytest.mark.parametrize("name", ["a::b", "x#y?z=1", "[a]*", "100%", "export_1", "ckpt_dir", "~t", "two\nlines"])
def test_odd_names_of_directories_are_names(name: str, tmp_path: Path) -> None:
    _record(tmp_path / "runs" / name)
    for source, far in ((tmp_path / "runs", tmp_path / "far"), (tmp_path / "runs" / name, tmp_path / "far" / name)):
        assert len(_sent(source, far).runs) == 1
    assert _names(tmp_path / "far") == _names(tmp_path / "runs")


def test_an_object_without_a_name_in_its_path_is_left(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file(f"{tmp_path}//x//events.out.events.summary.1.0.h_MS", b"x")
    memory.pipe_file(f"{tmp_path}///y", b"x")
    assert not _sent(f"memory:/{tmp_path}", tmp_path / "far").runs


def test_a_list_of_what_was_sent_that_somebody_forged_costs_nothing(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "far" / "digits" / "version_0"
    copy.mkdir(parents=True)
    (copy / ".mindsummary-sync").write_text("[" * 100_000)

    assert _sent(tmp_path / "runs", tmp_path / "far").problems == {}
    assert _names(copy) == _names(run)
