from __future__ import annotations

import itertools
import json
import math
import os
import re
import sys
from pathlib import Path

import pytest

from mindsummary_lightning import find_runs
from mindsummary_lightning.cli import main
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.values import EvaluationInfo, RunInfo, TrainInfo, UserDefinedInfo
from tests.cli.command import on_a_terminal
from tests.lineage.lineage_tree import write_run
from tests.reading.runs import values_at, write_lineage, write_summary


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for number, (network, accuracy) in enumerate(
        (("LeNet5", 0.5), ("ResNet", 0.9), ("LeNet5", 0.95))
    ):
        custom = UserDefinedInfo(
            {"seed": number, "note": f"a note of run {number} that is longer than a cell"}
        )
        train = TrainInfo(network=network, loss=1.0 - accuracy, train_dataset_path="/data/train")
        write_run(
            tmp_path / f"run{number}",
            train,
            custom,
            EvaluationInfo(f'{{"accuracy": {accuracy}}}'),
            mtime=number,
        )
    return tmp_path


def run(*arguments: str) -> int:
    return main(["lineage", *arguments])


def names(table: str) -> list[str]:
    return [line.split()[0] for line in table.splitlines()[1:]]


def test_prints_a_table_with_one_result_and_what_differs_first(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(base), "--sort", "metric/accuracy") == 0

    lines = capsys.readouterr().out.splitlines()
    shown = ["run", "metric/accuracy", "network", "seed", "note", "loss"]
    assert lines[0].split() == shown
    assert lines[1].split()[:4] == ["run0", "0.5", "LeNet5", "0"]
    assert lines[1].endswith("a note of run 0 that is longer than a cell   0.5")
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        (["--where", "metric/accuracy>0.6"], ["run2", "run1"]),
        (["--where", "metric_accuracy >= 0.9", "--where", "network=LeNet5"], ["run2"]),
        (["--where", "loss>0.06", "--where", "loss < 0.2"], ["run1"]),
        (["--where", "network!=LeNet5"], ["run1"]),
        (["--where", "network != LeNet5", "--where", "network!=ResNet"], []),
        (["--where", "loss!=0.05", "--where", "metric_accuracy!=0.5"], ["run1"]),
        (["--where", "user_defined/seed==2"], ["run2"]),
        (["--where", "summary_dir='./run0'"], ["run0"]),
        (["--sort", "loss"], ["run2", "run1", "run0"]),
        (["--sort", "loss", "--descending"], ["run0", "run1", "run2"]),
        (["--sort", "loss", "--limit", "1"], ["run2"]),
    ],
    ids=repr,
)
def test_filters_sorts_and_limits(
    base: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], runs: list[str]
) -> None:
    assert run(str(base), *arguments) == 0
    assert names(capsys.readouterr().out) == runs


def test_a_direction_without_a_field_to_sort_by_is_refused(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(base), "--descending") == 2
    assert "--sort" in capsys.readouterr().err


def test_nested_data_are_found_by_the_name_of_their_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, momentum in (("fast", 0.9), ("slow", 0.5)):
        nested = UserDefinedInfo({"optim": {"momentum": momentum}})
        write_run(
            tmp_path / name,
            TrainInfo(),
            EvaluationInfo(json.dumps({"per": {"class": momentum}})),
            nested,
        )

    assert (
        run(
            str(tmp_path),
            "--where",
            "user_defined/optim/momentum>0.6",
            "--where",
            "metric/per/class<1",
        )
        == 0
    )

    output = capsys.readouterr()
    assert names(output.out) == ["fast"]
    assert output.err == ""
    assert "optim/momentum" in output.out.splitlines()[0]


def test_what_has_no_column_is_found_by_the_last_part_of_its_name_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rate in (("fast", 0.2), ("slow", 0.1)):
        info = RunInfo(
            {"precision": "32-true", "optimizer_groups": {"0": {"lr": rate, "nesterov": 0}}}
        )
        write_run(tmp_path / name, TrainInfo(), UserDefinedInfo({"optim": {"lr": 0.5}}), info)

    assert (
        run(
            str(tmp_path),
            "--where",
            "precision=32-true",
            "--where",
            "nesterov=0",
            "--where",
            "lr=0.5",
        )
        == 0
    )
    by_its_setting = capsys.readouterr()
    assert run(str(tmp_path), "--sort", "user_defined/optimizer_groups/0/lr", "--descending") == 0
    lines = capsys.readouterr().out.splitlines()

    assert sorted(names(by_its_setting.out)) == ["fast", "slow"]
    assert by_its_setting.err == ""
    asked = ["optim/lr", "precision", "optimizer_groups/0/nesterov"]
    assert sorted(by_its_setting.out.split()[1:4]) == sorted(asked)
    assert [line.split()[:2] for line in lines] == [
        ["run", "optimizer_groups/0/lr"],
        ["fast", "0.2"],
        ["slow", "0.1"],
    ]


@pytest.mark.parametrize(
    "id_", ['"5"', "2024_06"], ids=["quoted", "what_is_a_number_in_python_alone"]
)
def test_a_quoted_number_is_compared_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], id_: str
) -> None:
    write_run(tmp_path / "text", TrainInfo(), UserDefinedInfo({"id": id_.strip('"')}))
    write_run(tmp_path / "number", TrainInfo(), UserDefinedInfo({"id": 5}))

    run(str(tmp_path), "--where", f"user_defined/id={id_}")

    assert names(capsys.readouterr().out) == ["text"]


@pytest.mark.parametrize(
    ("condition", "runs"),
    [
        ("AP@IoU=0.50>0.6", ["b"]),
        ('"metric/AP@IoU=0.50">0.6', ["b"]),
        ("batch norm=after", ["a"]),
        ('"batch norm"=AFTER', ["a"]),
        ("batch norm=after the layer", ["b"]),
        ("optimizer=adam", ["a"]),
        ("optimizer=a*", ["a"]),
        ('optimizer="adam"', []),
        ("amsgrad=True", ["b"]),
        ("distance=NaN", ["b"]),
        ("epoch>2.5", ["b"]),
        ("epoch>2.5 OR optimizer=adam", ["a", "b"]),
        ("sgd", ["b"]),
        ("-sgd", ["a"]),
    ],
)
def test_the_shell_speaks_the_query_language(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], condition: str, runs: list[str]
) -> None:
    for name, optimizer, norm, epoch in (
        ("a", "Adam", "after", 2),
        ("b", "SGD", "after the layer", 3),
    ):
        is_b = name == "b"
        metric = {"AP@IoU=0.50": epoch / 4, "distance": float("nan") if is_b else 0.5}
        custom = UserDefinedInfo({"batch norm": norm, "amsgrad": is_b})
        train = TrainInfo(optimizer=optimizer, epoch=epoch)
        write_run(tmp_path / name, train, custom, EvaluationInfo(json.dumps(metric)), mtime=-epoch)

    assert run(str(tmp_path), f"--where={condition}") == 0

    assert names(capsys.readouterr().out) == runs


def _with_scalars(base: Path) -> Path:
    for number, (name, losses) in enumerate(
        {"a": [3.0, 1.0, 2.0], "b": [5.0, 0.5, 4.0], "c": [1.0]}.items()
    ):
        tag = "train_loss" if name != "c" else "other"
        write_summary(
            base / name, [values_at(step, {tag: loss}) for step, loss in enumerate(losses)]
        )
        write_lineage(base / name, [TrainInfo(epoch=number)])
    return base


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        (["--sort", "last:train_loss"], ["a", "b", "c"]),
        (["--sort", "min:train_loss"], ["b", "a", "c"]),
        (["--sort", "max:train_loss", "--descending"], ["b", "a", "c"]),
        (["--where", "max:train_loss>4"], ["b"]),
        (["--where", "epoch<1", "--where", "last:train_loss>=2"], ["a"]),
    ],
)
def test_a_metric_of_the_training_alone_is_sorted_and_filtered_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], runs: list[str]
) -> None:
    assert run(str(_with_scalars(tmp_path)), *arguments) == 0

    output = capsys.readouterr()
    assert names(output.out) == runs
    assert output.err == ""
    assert ":train_loss" in output.out.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        (["--where", "diverged=true"], ["b"]),
        (["--where", "diverged=false", "--sort", "steps"], ["c", "a"]),
        (["--where", "steps>1", "--where", "epoch<1"], ["a"]),
        (["--where", "duration>=0", "--sort", "steps", "--descending", "--limit", "1"], ["b"]),
        (["--where", "started>=1970-01-01 steps<2"], ["c"]),
    ],
)
def test_what_summary_files_say_of_a_run_is_asked_for_as_in_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], runs: list[str]
) -> None:
    losses = {"a": [3.0, 1.0, 2.0], "b": [1.0, 2.0, 3.0, math.nan], "c": [1.0, 0.5]}
    for number, (name, values) in enumerate(losses.items()):
        write_summary(
            tmp_path / name, [values_at(step, {"loss": loss}) for step, loss in enumerate(values)]
        )
        write_lineage(tmp_path / name, [TrainInfo(epoch=number)])

    assert run(str(tmp_path), *arguments) == 0

    output = capsys.readouterr()
    assert names(output.out) == runs
    assert output.err == ""
    wheres = [text for option, text in itertools.pairwise(arguments) if option == "--where"]
    assert {one.run for one in find_runs(tmp_path, where=wheres)} >= set(runs)


def test_times_that_were_asked_for_are_shown_as_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])
    write_lineage(tmp_path / "a", [TrainInfo(epoch=1)])

    run(str(tmp_path), "--sort", "started")
    run(str(tmp_path), "--sort", "written")

    cells = [line.split()[1:3] for line in capsys.readouterr().out.splitlines()[1::2]]
    assert [
        re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", " ".join(cell)) is not None
        for cell in cells
    ] == [
        True,
        True,
    ]


def test_a_scalar_that_no_lineage_has_is_taken_by_its_last_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(_with_scalars(tmp_path)), "--sort", "train_loss", "--json") == 0

    output = capsys.readouterr()
    answer = json.loads(output.out)
    assert [one["scalars"] for one in answer["object"]] == [
        {"last:train_loss": 2.0}, {"last:train_loss": 4.0}, {"last:train_loss": None}
    ]  # fmt: skip
    said = (
        "train_loss is a scalar, so its last value is used. "
        "For its least or greatest value, write min:train_loss or max:train_loss"
    )
    assert output.err == f"{said}\n"


def test_a_field_of_lineage_that_no_run_has_gives_way_to_a_scalar_of_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, loss in (("a", 0.5), ("b", 0.25)):
        write_summary(tmp_path / name, [values_at(1, {"loss": loss})])
        write_lineage(tmp_path / name, [TrainInfo(epoch=1)])

    assert run(str(tmp_path), "--where", "loss<0.3") == 0
    output = capsys.readouterr()
    assert names(output.out) == ["b"]
    assert output.err.startswith("loss is a scalar, so its last value is used.")

    assert run(str(tmp_path), "--where", "network=LeNet5") == 0
    assert "no run has the field network" in capsys.readouterr().err


def test_a_scalar_that_no_run_has_is_said_with_the_closest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(_with_scalars(tmp_path)), "--sort", "last:trian_loss") == 0
    assert "no run has a scalar trian_loss; closest: 'train_loss'" in capsys.readouterr().err

    assert run(str(tmp_path), "--where", "trian_loss<1") == 2
    assert "no field 'trian_loss'; closest: 'last:train_loss'" in capsys.readouterr().err


def test_summary_files_are_read_only_of_runs_that_meet_all_other_conditions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    refresh = FollowedRun.refresh
    monkeypatch.setattr(
        FollowedRun,
        "refresh",
        lambda self: (read.append(os.path.basename(self.run_dir)), refresh(self)),
    )

    base = str(_with_scalars(tmp_path))
    run(base, "--sort", "last:train_loss", "--where", "min:train_loss<9 epoch<1")
    run(base, "--where", "min:train_loss<9", "--where", "epoch<1")

    assert read == ["a", "a"]


def test_json_is_the_answer_of_the_query_and_strict(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(base / "run9", EvaluationInfo('{"accuracy": NaN}'), mtime=9)

    assert run(str(base), "--json", "--limit", "2") == 0

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    answer = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert (answer["count"], len(answer["object"])) == (4, 2)
    assert answer["object"][0]["model_lineage"]["metric"] == {"accuracy": "NaN"}


def test_a_terminal_gets_short_cells_and_the_columns_that_fit(
    base: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "70")
    run(str(base))
    wide = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "40")
    run(str(base))
    narrow = capsys.readouterr().out
    on_a_terminal(monkeypatch, 200)
    run(str(base))

    assert wide.startswith("\033[1mrun")
    assert "not shown because the terminal is too narrow: loss" in wide
    assert narrow.splitlines()[-1].endswith("narrow: note, loss")
    assert all(len(line) <= 40 for line in narrow.splitlines()[1:-1])
    assert "a note of run 2 that is longer …" in capsys.readouterr().out


def test_characters_that_move_the_cursor_are_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "run", TrainInfo(network="a\x1b[2J\nb"))

    run(str(tmp_path))

    assert "a\\u001b[2J\\u000ab" in capsys.readouterr().out


def test_a_path_above_the_working_directory_is_understood(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(base / "run0")

    assert run(os.path.join("..", "run1")) == 0


def test_a_directory_without_lineage_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path, [])

    assert run(str(tmp_path)) == 0
    assert "or its subdirectories has lineage" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--where", "--sort"])
def test_a_field_that_no_run_has_is_said_with_the_closest(
    base: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert run(str(base), option, "metric/acc" + (">0.5" if option == "--where" else "")) == 0
    assert "no run has the field metric/acc; closest: 'metric/accuracy'" in capsys.readouterr().err

    assert run(str(base), option, "accurcy" + (">0.5" if option == "--where" else "")) == 2
    assert capsys.readouterr().err.endswith(": no field 'accurcy'; closest: 'metric/accuracy'\n")


def test_the_last_part_of_a_name_will_do_where_it_is_clear(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(2):
        metrics = {"val/accuracy": number / 2, "val/f1": 0.0, "test/f1": 0.0}
        write_run(
            tmp_path / f"run{number}", TrainInfo(epoch=1), EvaluationInfo(json.dumps(metrics))
        )

    assert run(str(tmp_path), "--where", "accuracy>0.4", "--sort", "accuracy") == 0
    told = capsys.readouterr().out
    assert ("run1" in told, "run0" in told) == (True, False)
    assert run(str(tmp_path), "--where", "f1>0") == 2
    assert "'f1' is ambiguous. Name one of metric/test/f1, metric/val/f1" in capsys.readouterr().err


def test_in_80_columns_a_sweep_shows_a_metric_and_the_settings_that_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        write_run(
            tmp_path / f"version_{number}",
            TrainInfo(
                network="torchvision.models.resnet.ResNet",
                optimizer="SGD",
                loss=0.1,
                batch_size=8,
                epoch=3,
            ),
            EvaluationInfo(
                json.dumps(
                    {f"val/{name}": number / 10 for name in ("loss", "accuracy", "f1", "recall")}
                )
            ),
            UserDefinedInfo(
                {
                    "hidden_size": 64 * (number + 1),
                    "dropout": number / 10,
                    "seed": 7,
                    "note": "first",
                }
            ),
        )
    on_a_terminal(monkeypatch, 80)

    run(str(tmp_path))

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == [*("run", "metric/val/accuracy", "hidden_size", "dropout")]
    assert max(map(len, lines[:4])) <= 80


def test_conditions_that_no_run_meets_say_how_many_there_are(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(base), "--where", "loss>100") == 0
    assert capsys.readouterr().err == "none of 3 runs meets the conditions\n"


def test_without_conditions_none_is_blamed_where_lineage_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "events.out.events.summary.1700000000.0.h_lineage").write_bytes(bytes(40))
    assert run(str(tmp_path)) == 1
    assert capsys.readouterr().err.endswith("none of 1 run has lineage that can be read\n")


def test_runs_are_found_from_any_level_above(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    below = base / "tree" / "of"
    for number, loss in enumerate((0.3, 0.2)):
        write_run(below / f"day{number}" / "run", TrainInfo(loss=loss))

    assert run(str(base / "tree"), "--sort", "loss") == 0

    assert names(capsys.readouterr().out) == ["of/day1/run", "of/day0/run"]


def test_columns_in_which_the_runs_differ_come_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        write_run(
            tmp_path / f"run{number}", TrainInfo(network="Net", loss=0.5, batch_size=8 * number)
        )

    run(str(tmp_path))

    assert capsys.readouterr().out.split("\n")[0].split() == [
        "run",
        "batch_size",
        "loss",
        "network",
    ]


def test_cells_are_short_and_a_column_that_holds_a_text_begins_at_its_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rate, status, metric in (
        ("a", 0.1, "success", {"val/acc": 1 / 3}),
        ("bb", "auto", "failed", {"val/acc": 0.75, "a_rare": 2.0}),
        ("c", 1e-7, "success", {"val/acc": 0.5}),
    ):
        settings = [
            UserDefinedInfo({"rate": rate, "nested": {"width": 8}}),
            RunInfo({"status": status}),
        ]
        write_run(
            tmp_path / name, TrainInfo(epoch=3), EvaluationInfo(json.dumps(metric)), *settings
        )

    assert run(str(tmp_path), "--sort", "summary_dir") == 0

    assert capsys.readouterr().out.splitlines() == [
        "run  metric/val/acc  status    rate   metric/a_rare  epoch  nested/width",
        "a          0.333333  finished  0.1                -      3             8",
        "bb             0.75  failed    auto               2      3             8",
        "c               0.5  finished  1e-07              -      3             8",
    ]


def test_json_has_the_scalars_that_were_asked_for_and_no_other_field(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(base / "run1", [values_at(at, {"x": x}) for at, x in enumerate((1.0, 3.0, 2.0))])

    def asked(*words: str) -> list[object]:
        assert run(str(base), "--json", "--where", "network=ResNet", *words) == 0
        (found,) = json.loads(capsys.readouterr().out)["object"]
        return [found["summary_dir"], found.get("scalars")]

    assert asked("--sort", "loss") == ["./run1", None]
    assert asked("--where", "max:x>2", "--sort", "last:x") == [
        "./run1",
        {"max:x": 3.0, "last:x": 2.0},
    ]
