"""``mindsummary list --best``: the best of sixty runs, against values computed by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindsummary_lightning.values import RunInfo, TrainInfo, UserDefinedInfo
from tests.cli.command import mindsummary
from tests.lineage.sixty_runs import Run, by_best, by_last, write_sixty_runs
from tests.reading.runs import values_at, write_lineage, write_summary


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sixty") / "runs"


@pytest.fixture(scope="module")
def runs(base: Path) -> list[Run]:
    return write_sixty_runs(base)


def _names(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()[1:]]


def test_the_best_by_best_value_comes_first(
    base: Path, runs: list[Run], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = mindsummary(capsys, "list", base, "--best", "val/loss")

    assert answer.code == 0
    assert _names(answer.out) == [run.name for run in by_best(runs)]
    head, *lines = answer.out.splitlines()
    assert head.split()[:5] == [
        "run",
        "status",
        "min:val/loss",
        "last:val/loss",
        "best_step:val/loss",
    ]
    assert [line.split()[1].rstrip(",") for line in lines] == [run.status for run in by_best(runs)]
    assert ["diverged" in line for line in lines] == [run.is_diverged for run in by_best(runs)]


def test_the_best_by_last_value_comes_first(
    base: Path, runs: list[Run], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = mindsummary(capsys, "list", base, "--best", "last:val/loss", "--limit", 5)

    assert _names(answer.out) == [run.name for run in by_last(runs)[:5]]


def test_a_metric_of_an_evaluation_is_better_the_higher_it_is(
    base: Path, runs: list[Run], capsys: pytest.CaptureFixture[str]
) -> None:
    answer = mindsummary(
        capsys, "list", base, "--best", "test/acc", "--where", "status=finished", "--json"
    )

    found = [run["run"] for run in json.loads(answer.out)["runs"]]
    tested = [run for run in by_best(runs) if run.is_tested and run.status == "finished"]
    assert found[: len(tested)] == [run.name for run in tested]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--best", "loss"], "Name one of train/loss, val/loss"),
        (["--best", "val/los"], "no run has a scalar 'val/los'"),
        (["--best", "val/loss", "--where", "sede=1"], "no field 'sede'"),
        (["--limit", "3"], "--where and --limit need --best"),
        (["--where", "seed=1"], "--where and --limit need --best"),
        ([".", "--best", "val/loss"], "--best needs exactly one directory"),
    ],
)
def test_what_cannot_be_answered_is_said(
    base: Path, runs: list[Run], words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = mindsummary(capsys, "list", base, *words)

    assert (answer.code, said in answer.err) == (2, True), answer.err


def test_results_and_repeated_settings_are_not_among_the_settings_that_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, lr, size in (("a", 0.1, 8), ("b", 0.2, 9)):
        write_summary(tmp_path / name, [values_at(1, {"val/loss": lr})])
        train = TrainInfo(epoch=size, loss=lr, model_size=size)
        noted = RunInfo({"optimizer_groups": {"0": {"lr": lr, "eps": lr / 10}}})
        write_lineage(tmp_path / name, [train, noted, UserDefinedInfo({"lr": lr})])

    head = mindsummary(capsys, "list", tmp_path, "--best", "val/loss").out.splitlines()[0]

    assert head.split()[5:] == ["optimizer_groups/0/eps", "lr"]


def test_numbers_stand_at_the_right_and_a_run_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, lr, note in (("a", 0.125, "x"), ("longer", 2.0, "much")):
        write_summary(tmp_path / name, [values_at(3, {"val/loss": lr / 2})])
        settings = UserDefinedInfo({"lr": lr, "note": note})
        write_lineage(tmp_path / name, [TrainInfo(epoch=3), settings])
    torn = write_summary(tmp_path / "torn", [values_at(1, {"val/loss": 0.01})])
    torn.write_bytes(torn.read_bytes()[:-1] + b"?")

    table = mindsummary(capsys, "list", tmp_path, "--best", "val/loss", "--limit", 2)
    answer = mindsummary(capsys, "list", tmp_path, "--best", "val/loss", "--limit", 2, "--json")

    assert table.out.splitlines() == [
        "run     status  min:val/loss  last:val/loss  best_step:val/loss     lr  note",
        "a       -             0.0625         0.0625                   3  0.125  x",
        "longer  -                  1              1                   3      2  much",
    ]
    shown = json.loads(answer.out)
    assert shown["by"] == "min:val/loss"
    assert [(run["run"], run["path"], run["lr"]) for run in shown["runs"]] == [
        (name, str(tmp_path / name), lr) for name, lr in (("a", 0.125), ("longer", 2.0))
    ]
    for told in (table, answer):
        assert told.code == 1
        (line,) = told.err.splitlines()
        assert line.startswith("mindsummary: the scalars of torn are left out: record at byte ")


@pytest.mark.parametrize(
    ("name", "best"),
    [
        ("min:latency", "quick"),
        ("max:latency", "slow"),
        ("latency", "slow"),
        ("max:loss", "slow"),
        ("loss", "quick"),
    ],
)
def test_min_and_max_before_a_name_decide_which_value_is_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, best: str
) -> None:
    for run, value in (("quick", 1.0), ("slow", 9.0)):
        write_summary(tmp_path / run, [values_at(1, {"latency": value, "loss": value})])

    assert _names(mindsummary(capsys, "list", tmp_path, "--best", name).out)[0] == best


def test_the_end_of_a_name_is_one_of_its_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, train, validation in (("a", 1.0, 5.0), ("b", 2.0, 4.0)):
        values = {"train/loss": train, "val_loss": validation}
        write_summary(tmp_path / name, [values_at(1, values)])

    answer = mindsummary(capsys, "list", tmp_path, "--best", "loss")

    assert answer.code == 0
    assert [line.split()[0] for line in answer.out.splitlines()[1:3]] == ["a", "b"]
