"""The examples of ``docs/lineage.md``, run as they stand there."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from mindsummary_lightning.cli import main
from mindsummary_lightning.values import EvaluationInfo, TrainInfo, UserDefinedInfo
from tests.lineage.lineage_tree import write_run

PAGE = Path(__file__).parents[2] / "docs" / "lineage.md"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """The three runs that the page speaks of."""
    base = tmp_path / "runs"
    for mtime, (name, loss, rate, accuracy, momentum) in enumerate(
        (("lenet_fast", 0.3, 0.1, 0.91, 0.9), ("lenet_slow", 0.5, 0.01, 0.84, 0.5)), start=1
    ):
        train = TrainInfo(network="LeNet5", optimizer="SGD", learning_rate=rate, epoch=10, loss=loss)
        custom = UserDefinedInfo({"optim": {"momentum": momentum}})
        write_run(base / name, train, custom, EvaluationInfo(f'{{"accuracy": {accuracy}}}'), mtime=mtime)
    resnet = TrainInfo(network="ResNet18", optimizer="Adam", learning_rate=0.001, epoch=20, loss=0.2)
    write_run(base / "resnet", resnet, EvaluationInfo('{"accuracy": 0.95}'), mtime=3)
    return base


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_python_examples_of_the_page_answer_as_printed(runs: Path) -> None:
    pytest.importorskip("pandas")
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    names: dict[str, object] = {"runs": runs}
    for number, block in enumerate(_blocks("python")):
        example = parser.get_doctest(block, {}, f"block {number}", str(PAGE), 0)
        example.globs = names  # what one block imports, the next ones use
        runner.run(example, clear_globs=False)

    assert runner.tries > 8
    assert runner.failures == 0


def test_the_refusal_printed_on_the_page_is_the_real_one(runs: Path) -> None:
    from mindsummary_lightning.lineage.query import filter_summary_lineage

    with pytest.raises(ValueError) as caught:
        filter_summary_lineage(runs, {"epoch": {"lt": 3.5}})

    assert f"{type(caught.value).__name__}: {caught.value}" in PAGE.read_text(encoding="utf-8")


def test_the_shell_example_of_the_page_prints_what_is_printed(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs.parent)
    (block,) = _blocks("console")
    command, _, printed = block.partition("\n")

    assert main(shlex.split(command)[2:]) == 0
    assert capsys.readouterr().out == printed
