"""Misspelt words, wrong files and directories without runs: each verb says what it takes and what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import mindsummary
from tests.reading.runs import values_at, write_summary


@pytest.mark.parametrize("words", [("--debug", "show", "nothing"), ("show", "nothing", "--debug")])
def test_debug_stands_on_either_side_of_the_verb(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FileNotFoundError):
        mindsummary(capsys, *words)


def test_what_is_no_directory_of_runs_is_answered_alike_by_every_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, empty = write_summary(tmp_path / "run", [values_at(1, {"loss": 1.0})]), tmp_path / "empty"
    empty.mkdir()
    verbs = [("list",), ("show",), ("verify",), ("repair",), ("lineage",), ("compare", tmp_path / "run")]
    verbs += [("export", "--to", "csv", "--out", "out"), ("report", "-o", "report.html")]

    for named, told in (
        (empty, f"no run in {empty}: neither it nor a directory below it contains a summary or lineage file"),
        (path, f"{path} is a file; give its directory: {path.parent}"),
        (tmp_path / "missing", f"{tmp_path / 'missing'}: no such file or directory"),
    ):
        answers = {mindsummary(capsys, verb[0], named, *verb[1:]) for verb in verbs}
        assert {(answer.out, answer.err) for answer in answers} == {("", f"mindsummary: {told}\n")}
        assert {answer.code for answer in answers} <= {1, 2}


def test_verify_tells_a_missing_path_from_damage_by_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_summary(tmp_path / "run", [values_at(1, {"loss": 1.0})])
    path.write_bytes(path.read_bytes()[:-1] + b"?")

    codes = [mindsummary(capsys, "verify", directory).code for directory in (tmp_path / "run", tmp_path / "nowhere")]

    assert codes == [1, 2]


def test_damage_that_ends_a_verb_says_what_helps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_summary(tmp_path / "run", [values_at(1, {"loss": 1.0})])
    path.write_bytes(path.read_bytes()[:-1] + b"?")

    for words in (("show",), ("compare", tmp_path / "run"), ("export", "--to", "npy", "--out", tmp_path / "out")):
        answer = mindsummary(capsys, words[0], tmp_path / "run", *words[1:])
        assert answer.err.startswith("mindsummary: record at byte ")
        assert answer.err.endswith("; run `mindsummary repair`\n")
