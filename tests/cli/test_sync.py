"""``mindsummary sync`` as it is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import mindsummary
from tests.reading.runs import values_at, write_summary


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        write_summary(tmp_path / "runs" / name, [values_at(1, {"loss": 1.0})])
    return tmp_path / "runs"


def test_runs_go_there_and_come_back(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = mindsummary(capsys, "sync", runs, f"memory:/{tmp_path}")
    back = mindsummary(capsys, "sync", f"memory:/{tmp_path}", tmp_path / "back")

    assert (there.code, back.code, there.err, back.err) == (0, 0, "", "")
    assert there.out.startswith("2 runs: ")
    for copy in (tmp_path / "back").rglob("*summary*"):
        os.utime(copy, (0, 0))
        os.utime(runs / copy.relative_to(tmp_path / "back"), (0, 0))
    assert mindsummary(capsys, "list", tmp_path / "back").out == mindsummary(capsys, "list", runs).out


def test_what_is_not_there_at_the_end_is_said_and_is_exit_code_1(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = (runs / "a").iterdir()
    copy = tmp_path / "far" / "a" / path.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"somebody else's")
    os.utime(copy, (2e9, 2e9))

    answer = mindsummary(capsys, "sync", runs, tmp_path / "far")
    printed = mindsummary(capsys, "sync", runs, tmp_path / "far", "--json")

    assert (answer.code, printed.code, copy.read_bytes()) == (1, 1, b"somebody else's")
    problem, missing = answer.err.splitlines()
    assert problem.endswith("is newer, so it is not replaced; to replace it, add --force")
    assert missing == f"mindsummary: {path.stat().st_size} B are not there yet"
    facts = json.loads(printed.out)
    assert {name: facts[name] for name in ("runs", "sent_bytes", "missing_bytes")} == {
        "runs": 2,
        "sent_bytes": 0,
        "missing_bytes": path.stat().st_size,
    }
    assert len(facts["problems"]) == 1
    assert mindsummary(capsys, "sync", runs, tmp_path / "far", "--force").code == 0
    assert copy.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("nothing", "far"), 1, "no run in nothing: nothing was sent"),
        (("runs", "gs://bucket/runs"), 1, "gcsfs"),
        (("runs", "runs/far"), 2, "runs/far is in runs: its copies would be copied"),
        (("runs", "link/far", "--follow"), 2, "link/far is in runs: its copies would be copied"),
        (("link", "runs", "--follow"), 2, "runs is in link: its copies would be copied"),
        (("runs", "far", "--every", "0"), 2, "--every takes a number of seconds"),
        (("runs", "far", "--verify", "--follow"), 2, "--verify reads once, without --follow"),
        (
            ("runs", "http://me:pw@host/runs"),
            1,
            "http://***@host/runs: its driver does not tell when a file was changed",
        ),
        (("runs", "nothing://me:pw@host/runs"), 1, "nothing://***@host/runs cannot be reached"),
    ],
)
def test_mistakes_are_one_line(
    words: tuple[str, ...], code: int, text: str, runs: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("runs")

    answer = mindsummary(capsys, "sync", *words)

    assert answer.code == code
    assert text in answer.err
    assert len(answer.err.splitlines()) == 1
    assert "pw" not in answer.err


def test_users_passwords_and_queries_of_addresses_are_in_no_line_and_no_json(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"memory://me:pw@{tmp_path.name}/runs?signature=pw"
    printed = [mindsummary(capsys, "sync", runs, address)]
    (path,) = (runs / "a").iterdir()
    path.write_bytes(bytes(path.stat().st_size + 1))
    os.utime(path, (0, 0))
    printed += [mindsummary(capsys, "sync", runs, address, *words) for words in ((), ("--json",))]

    assert [answer.code for answer in printed] == [0, 1, 1]
    assert all("***" in answer.out + answer.err for answer in printed)
    assert not [answer for answer in printed if "pw" in answer.out + answer.err]


@pytest.mark.slow
def test_torch_is_not_loaded_to_carry_runs(runs: Path, tmp_path: Path) -> None:
    code = f"import sys; from mindsummary_lightning.cli import main; main(['sync', {str(runs)!r}, 'memory://runs']); "
    code += "sys.exit(any(name in sys.modules for name in ('torch', 'google.protobuf', 'lightning', 's3fs')))"

    assert subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL).returncode == 0
