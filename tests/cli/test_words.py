"""What may be typed: several directories or none, other spellings, help, completion, names in
Chinese.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mindsummary_lightning.cli.verbs import VERBS
from tests.cli.command import mindsummary, on_a_terminal
from tests.cli.demo_run import write_demo_run
from tests.reading.runs import values_at, write_summary
from tests.support import skip_without_unicode_names


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a", "b", "c"):
        write_summary(tmp_path / "runs" / name, [values_at(1, {"loss": 1.0})])
    (tmp_path / "runs" / "notes.txt").touch()
    monkeypatch.chdir(tmp_path / "runs")
    return tmp_path / "runs"


def test_what_a_shell_makes_of_a_star_is_listed_and_checked(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    star = sorted(path.name for path in runs.iterdir())

    listed = json.loads(mindsummary(capsys, "list", *star, "--json").out)["runs"]
    checked = json.loads(mindsummary(capsys, "verify", *star[:2], "--json").out)["runs"]

    assert [run["run"] for run in listed] == ["a", "b", "c"]
    assert checked == ["a", "b"]
    assert "b: nothing is damaged" in mindsummary(capsys, "repair", "a", "b").out


def test_without_a_directory_the_working_directory_is_looked_at_but_not_changed(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mindsummary(capsys, "list").out.count("\n") == 4
    assert "3 runs checked" in mindsummary(capsys, "verify").out
    assert mindsummary(capsys, "repair").code == 2
    monkeypatch.chdir(runs / "b")
    assert "loss" in mindsummary(capsys, "show").out


def test_columns_behind_wide_characters_stand_below_each_other(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    skip_without_unicode_names()
    shutil.copytree(runs / "a", runs / "实验一")

    first, *_, last = mindsummary(capsys, "list").out.splitlines()

    assert last.startswith("实验一")
    assert len(last[: last.index("20")]) + 3 == first.index("last written")


def test_of_many_exported_files_the_first_are_named_and_the_others_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path / "run", [values_at(1, {f"loss_{number}": 1.0 for number in range(30)})])
    words = ("export", tmp_path / "run", "--to", "npy", "--out")

    told = mindsummary(capsys, *words, tmp_path / "out").out.splitlines()
    answer = json.loads(mindsummary(capsys, *words, tmp_path / "again", "--json").out)

    names = [str(Path(file).relative_to(tmp_path / "again")) for file in answer["files"]]
    assert len(names) == 31  # with the names of the tags
    assert told == [
        *(str(tmp_path / "out" / name) for name in names[:20]),
        f"and 11 more files in {tmp_path / 'out'}",
        *answer["notes"],
    ]


def test_twenty_exported_files_are_all_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path / "run", [values_at(1, {f"loss_{number}": 1.0 for number in range(19)})])

    told = mindsummary(
        capsys, "export", tmp_path / "run", "--to", "npy", "--out", tmp_path / "out"
    ).out.splitlines()

    assert len(told) == 20
    assert {Path(file) for file in told} == {
        path for path in (tmp_path / "out").rglob("[!.]*") if path.is_file()
    }


def test_an_export_says_what_its_files_do_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_demo_run(tmp_path / "run")
    words = ("export", tmp_path / "run", "--to", "csv", "--out", tmp_path / "out", "--force")

    told, answer = mindsummary(capsys, *words), mindsummary(capsys, *words, "--json")

    files = [str(tmp_path / "out" / name) for name in ("scalars.csv", "histograms.csv")]
    lack = "1 image, 1 tensor, 1 loss_landscape, 1 graph, 1 lineage"
    notes = [f"skipped because csv files do not hold them: {lack}"]
    assert told.out.splitlines() == [*files, *notes]
    assert json.loads(answer.out) == {"files": files, "notes": notes}
    assert (told.code, told.err, answer.code, answer.err) == (0, "", 0, "")


def test_a_narrow_terminal_gets_the_columns_that_fit_and_the_names_of_the_others(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {}
    for columns in (40, 60):
        on_a_terminal(monkeypatch, columns)
        monkeypatch.delenv("NO_COLOR")
        monkeypatch.setenv("TERM", "dumb")
        told[columns] = mindsummary(capsys, "list").out.splitlines()

    assert told[60][0].split() == ["run", "last", "written", "status", "size", "lineage", "tags"]
    assert told[40][0].split() == ["run", "last", "written", "status", "size"]
    assert told[40][-1] == "not shown because the terminal is too narrow: lineage, tags"


@pytest.mark.parametrize("form", ["csv", "npy", "parquet", "tensorboard"])
def test_an_export_tells_of_all_bytes_of_the_run_it_reads(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip({"parquet": "pyarrow", "tensorboard": "tensorboard"}.get(form, "numpy"))
    write_demo_run(tmp_path / "run")
    told: list[tuple[int, list[int]]] = []

    @contextlib.contextmanager
    def bar(what: str, total: int, unit: str = "B") -> Iterator[Callable[[int], object]]:
        told.append((total, []))
        yield told[-1][1].append

    monkeypatch.setattr("mindsummary_lightning.cli.export.progress_bar", bar)
    assert (
        mindsummary(
            capsys, "export", tmp_path / "run", "--to", form, "--out", tmp_path / "out"
        ).code
        == 0
    )

    ((total, steps),) = told
    assert total == sum(path.stat().st_size for path in (tmp_path / "run").iterdir())
    assert sum(steps) == total
    assert len(steps) > 1


@pytest.mark.parametrize(
    ("words", "module", "counted"),
    [
        ("list runs", "output", (3, " runs")),
        ("verify runs", "runs", ("a b c", "B")),
        ("repair runs", "runs", ("a b c", "B")),
        ("compare runs/a runs/b", "compare", ("a b", "B")),
        ("compare runs/a runs/b --same runs/c", "compare", ("a b c", "B")),
        ("import runs --out out", "import_runs", ("a b c", "B")),
    ],
)
def test_a_bar_ends_where_the_work_does(
    words: str,
    module: str,
    counted: tuple[int | str, str],
    runs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    verb, *_ = words.split()
    if verb == "import":
        pytest.importorskip("tensorboard")
    monkeypatch.chdir(runs.parent)
    for number, run in enumerate(("a", "b", "c"), 1):
        records = [values_at(step, {"loss": 1.0}) for step in range(3 * number)]
        path = write_summary(runs / run, records)
        if verb == "import":
            path.rename(path.with_name("events.out.tfevents.1600000000.host"))
    told: list[tuple[int, str, list[int]]] = []

    @contextlib.contextmanager
    def bar(what: str, total: int, unit: str = "B") -> Iterator[Callable[[int], object]]:
        told.append((total, unit, []))
        yield told[-1][2].append

    monkeypatch.setattr(f"mindsummary_lightning.cli.{module}.progress_bar", bar)
    mindsummary(capsys, *words.split())

    total, unit = counted
    if isinstance(total, str):
        files = [path for name in total.split() for path in (runs / name).iterdir()]
        total = sum(path.stat().st_size for path in files)
    ((told_total, told_unit, steps),) = told
    assert (told_total, told_unit, sum(steps)) == (total, unit, total)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["exp"], ["export"]),
        (["-"], ["--help", "--version", "--debug"]),
        (["list", "ru"], []),  # files are the shell's own
        (["list", "--e"], ["--exact"]),
        (["export", "runs", "--to", ""], ["csv", "parquet", "npy", "tensorboard"]),
        (["export", "-"], ["--help", "--debug", "--to", "--out", "--output", "--force", "--json"]),
        (["compare", "a", "b", "--language", "z"], ["zh"]),
        (["completion", "z"], ["zsh"]),
    ],
    ids=" ".join,
)
def test_bash_completes_verbs_options_and_values(
    typed: list[str], offered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = " ".join(f"'{word}'" for word in ["mindsummary", *typed])
    script = mindsummary(capsys, "completion", "bash").out
    call = f'COMP_WORDS=({words}); COMP_CWORD={len(typed)}; _mindsummary; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{call}"], check=True, capture_output=True, text=True
    )

    assert done.stdout.split() == offered


@pytest.mark.parametrize(
    ("shell", "line"), [("zsh", "autoload -U +X bashcompinit"), ("fish", "-a list -d 'List the")]
)
def test_other_shells_complete_every_verb(
    shell: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = mindsummary(capsys, "completion", shell).out

    assert line in script
    assert [verb for verb in VERBS if verb not in script] == []


def test_fish_completes_options_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    script = mindsummary(capsys, "completion", "fish").out.splitlines()

    before = "complete -c mindsummary -n '__fish_seen_subcommand_from export' "
    described = [line.removeprefix(before) for line in script if line.startswith(before)]
    assert [line.partition(" -d ")[0] for line in described] == [
        "-l to -xa 'csv parquet npy tensorboard'",
        "-s o -l out -l output -r",
        "-l force",
        "-l json",
    ]
    assert described[1].endswith(" -d 'directory to write into; new or empty'")
    (shells,) = (line for line in script if "from completion'" in line)
    assert " -xa 'bash zsh fish' -d " in shells
    (every,) = (line for line in script if " -l every " in line)
    assert every.endswith("(default: its default)'")
    assert any("MindInsight\\'s wheel" in line for line in script)
