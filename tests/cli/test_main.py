from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import mindsummary_lightning
from mindsummary_lightning.cli import main, verb_module
from mindsummary_lightning.cli.arguments import VERBS
from mindsummary_lightning.values import Event, Image
from tests.cli.command import mindsummary
from tests.reading.runs import record, values_at, write_summary

_RUN_MAIN = "import sys; from mindsummary_lightning.cli import main; sys.exit(main())"


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_says_its_name_and_its_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = mindsummary(capsys, verb, "--help")

    assert answer.code == 0
    assert answer.out.startswith(f"usage: mindsummary {verb} ")
    assert " ".join(VERBS[verb][0].split())[:50] in " ".join(answer.out.split())


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_has_a_module_that_runs_it(verb: str) -> None:
    assert callable(verb_module(verb).run)


def test_help_lists_every_verb_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    answer = mindsummary(capsys, "--help")

    assert answer.code == 0
    assert all(re.search(rf"^ +{verb}\b", answer.out, re.MULTILINE) for verb in VERBS)
    assert "Exit codes" in answer.out


@pytest.mark.parametrize("words", [["nope"], ["show"], ["show", "a", "--nope"], ["lineage", "a", "--limit", "0"]])
def test_a_wrong_command_line_gives_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    answer = mindsummary(capsys, *words)

    assert answer.code == 2
    assert answer.err.startswith("usage: mindsummary")


@pytest.mark.parametrize("verb", ["list", "show", "verify", "repair"])
def test_a_directory_without_runs_gives_1_and_one_line(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = mindsummary(capsys, verb, tmp_path)

    assert answer.code == 1
    assert answer.err.startswith(f"mindsummary: no run in {tmp_path}")
    assert answer.err.count("\n") == 1


def test_a_missing_file_gives_1_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = mindsummary(capsys, "dump", tmp_path / "missing")

    assert (answer.code, answer.err.count("\n")) == (1, 1)
    assert answer.err == f"mindsummary: {tmp_path / 'missing'}: no such file or directory\n"


def test_one_of_several_runs_must_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        write_summary(tmp_path / name, [])

    answer = mindsummary(capsys, "show", tmp_path)

    assert answer.code == 2
    assert "contains 2 runs (a, b); give one of them" in answer.err


def test_without_words_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    answer = mindsummary(capsys)

    assert answer.code == 0
    assert answer.out.startswith("usage: mindsummary")


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert mindsummary(capsys, "--version").out == f"mindsummary {mindsummary_lightning.__version__}\n"


def test_debug_shows_where_an_expected_error_comes_from(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        main(["--debug", "dump", str(tmp_path / "missing")])


def test_a_programming_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(arguments: object) -> int:
        raise ValueError("a fault of ours")

    monkeypatch.setattr("mindsummary_lightning.cli.dump.run", fault)

    with pytest.raises(ValueError, match="a fault of ours"):
        main(["dump", "x"])


def test_an_interrupt_is_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("mindsummary_lightning.cli.dump.run", interrupt)

    assert main(["dump", "x"]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_reader_that_has_had_enough_is_no_error(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(step, {"loss": 1.0}) for step in range(5000)])
    command = [sys.executable, "-c", _RUN_MAIN, "dump", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()

        assert (process.stderr.read(), process.wait()) == ("", 0)


@pytest.mark.slow
def test_neither_torch_nor_numpy_is_loaded_to_read_the_command_line() -> None:
    code = "import sys; from mindsummary_lightning.cli import main; main(['--help']); "
    code += "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'google.protobuf', 'lightning')))"

    assert subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.slow
def test_neither_torch_nor_protobuf_is_loaded_to_list_runs(tmp_path: Path) -> None:
    write_summary(tmp_path, [values_at(1, {"loss": 1.0}), record(Event(1.0, 1, (("picture", Image(1, 2, b"png")),)))])
    code = f"import sys; from mindsummary_lightning.cli import main; main(['list', {str(tmp_path)!r}]); "
    code += "sys.exit(any(name in sys.modules for name in ('torch', 'google.protobuf', 'lightning')))"

    done = subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.PIPE, text=True)
    assert "1 scalar, 1 image" in done.stdout
    assert done.returncode == 0
