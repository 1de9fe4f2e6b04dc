"""The examples of the guides, run as they stand: ``>>>`` by doctest, ``$`` by the command and the shell."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run

_DOCS = Path(__file__).parents[2] / "docs"
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_demo_run(tmp_path / "runs" / "version_0", 0.01)
    write_demo_run(tmp_path / "runs" / "version_1", 0.03)


def _blocks(guide: str, language: str) -> list[str]:
    text = (_DOCS / guide).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("guide", ["reading.md", "tensorboard.md"])
def test_the_python_examples_do_what_they_say(guide: str) -> None:
    if guide == "tensorboard.md":
        pytest.importorskip("tensorboard")
    else:
        pytest.importorskip("pandas")
    examples = "\n".join(_blocks(guide, "python"))

    runner = doctest.DocTestRunner(optionflags=_OPTIONS)
    said: list[str] = []
    runner.run(doctest.DocTestParser().get_doctest(examples, {}, guide, guide, 0), out=said.append)

    assert examples
    assert not said, "".join(said)


@pytest.mark.slow
@pytest.mark.parametrize("guide", ["command-line.md", "tensorboard.md"])
def test_the_commands_print_what_they_say(guide: str, capsys: pytest.CaptureFixture[str]) -> None:
    if guide == "tensorboard.md":
        pytest.importorskip("tensorboard")
    checker = doctest.OutputChecker()
    for block in _blocks(guide, "console"):
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            if command.startswith("mindsummary "):
                answer = mindsummary(capsys, *command.split()[1:])
                printed = answer.out + answer.err
            else:
                printed = subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout
            assert checker.check_output(expected, printed, _OPTIONS), f"$ {command}\n{printed}"


def test_the_guide_lists_every_verb() -> None:
    from mindsummary_lightning.cli import VERBS

    text = (_DOCS / "command-line.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[?`(\w+)", text, re.MULTILINE)

    assert [verb for verb in listed if verb in VERBS][: len(VERBS)] == list(VERBS)


def test_the_guide_names_the_versions_that_are_installed() -> None:
    from mindsummary_lightning.mindinsight.pins import PINS

    text = (_DOCS / "viewer.md").read_text(encoding="utf-8")

    assert text.count(" ".join(PINS)) == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
def test_completion_knows_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    from mindsummary_lightning.cli import VERBS

    (line,) = _blocks("command-line.md", "bash")
    found = re.search(r"\$\(mindsummary --help \| (awk '.*')\)", line)
    assert found is not None
    words = subprocess.run(
        found.group(1), shell=True, check=True, capture_output=True, text=True, input=mindsummary(capsys, "--help").out
    ).stdout.split()

    assert words == list(VERBS)
