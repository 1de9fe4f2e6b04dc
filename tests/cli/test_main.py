from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindsummary_lightning.cli import main
from mindsummary_lightning.cli.output import Answer
from mindsummary_lightning.values import Event, Image
from tests.cli.command import mindsummary
from tests.reading.runs import record, values_at, write_summary

_RUN_MAIN = "import sys; from mindsummary_lightning.cli import main; sys.exit(main())"


def test_a_programming_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(arguments: object) -> int:
        raise ValueError("a fault of ours")

    monkeypatch.setattr("mindsummary_lightning.cli.dump.run", fault)

    with pytest.raises(ValueError, match="a fault of ours"):
        main(["dump", "x"])


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (
            ["repair", "run"],
            (
                "mindsummary: interrupted: each file is rebuilt completely or as it was; the "
                "same call "
            ),
        ),
        (["report", "run"], "mindsummary: interrupted: report.html is as it was before"),
        (
            ["sync", "run", "there"],
            "mindsummary: interrupted: there has whole records only; the same call goes on",
        ),
        (["dump", "run"], ""),
    ],
    ids=lambda part: part[0] if isinstance(part, list) else "",
)
def test_an_interrupt_says_what_is_left(
    words: list[str], left: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"mindsummary_lightning.cli.{words[0]}.run", interrupt)

    assert main(words) == 130
    assert capsys.readouterr().err.startswith(left)


@pytest.mark.slow
def test_a_reader_that_has_had_enough_is_no_error(tmp_path: Path) -> None:
    path = write_summary(tmp_path, [values_at(step, {"loss": 1.0}) for step in range(5000)])
    command = [sys.executable, "-c", _RUN_MAIN, "dump", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        process.stdout.close()

        assert (process.stderr.read(), process.wait()) == ("", 0)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        (">&-", 0, ""),
        (">&- 2>&-", 0, ""),
        ("<&- >&- 2>&-", 0, ""),
        ("> /dev/full", 1, "mindsummary: no space left on device"),
    ],
)
def test_work_is_done_whatever_became_of_standard_output(
    redirection: str, code: int, said: str, tmp_path: Path
) -> None:
    if "/dev/full" in redirection and not os.path.exists("/dev/full"):
        pytest.skip("a system without /dev/full")
    write_summary(tmp_path / "run", [values_at(1, {"loss": 1.0})])
    command = f'exec "$0" -c "$1" export "$2" --to csv --out "$3" {redirection}'
    words = [sys.executable, _RUN_MAIN, str(tmp_path / "run"), str(tmp_path / "out")]
    done = subprocess.run(["sh", "-c", command, *words], capture_output=True, text=True)

    assert done.returncode == code, done.stderr
    assert (done.stderr.startswith(said), done.stderr.count("\n")) == (True, bool(said)), (
        done.stderr
    )
    (table,) = (tmp_path / "out").glob("scalars*.csv")
    assert table.read_text(encoding="utf-8").count("\n") == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes")
@pytest.mark.parametrize("name", ["прогон", "run-\udcff", "läuft"])
def test_a_name_that_the_encoding_cannot_write_is_escaped(name: str, tmp_path: Path) -> None:
    write_summary(tmp_path / name, [values_at(1, {"loss": 1.0})])
    variables = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for verb in ("list", "verify", "lineage"):
        command = [sys.executable, "-c", _RUN_MAIN, verb, str(tmp_path)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=variables, encoding="ascii"
        )

        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
        assert verb != "list" or "\\" in done.stdout


@contextlib.contextmanager
def _unread(name: str) -> Iterator[None]:
    """A standard stream is a pipe whose reader has ended; it is closed without an error."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, name, stream)
        yield


def test_output_that_no_one_reads_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path / "run", [values_at(1, {"loss": 1.0})])

    for words in (("list", tmp_path), ("list", tmp_path, "--json"), ("show", tmp_path / "run")):
        with _unread("stdout"):
            assert main([str(word) for word in words]) == 0, words
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("code", [0, 1])
def test_what_no_one_reads_is_not_worked_out_to_its_end(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def run(arguments: object) -> Answer:
        return Answer(lines=(made.append(at) or f"line {at}" for at in range(5_000)), code=code)

    monkeypatch.setattr("mindsummary_lightning.cli.dump.run", run)

    with _unread("stdout"):
        assert main(["dump", "run"]) == code
    assert 0 < len(made) < 5_000


@pytest.mark.parametrize("number", [1, 1_000])
def test_problems_that_no_one_reads_do_not_stop_the_answer(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(arguments: object) -> Answer:
        return Answer(lines=["the answer"], code=1, problems=["a problem"] * number)

    monkeypatch.setattr("mindsummary_lightning.cli.dump.run", run)

    with _unread("stderr"):
        assert main(["dump", "run"]) == 1
    assert capsys.readouterr().out == "the answer\n"


def test_what_an_encoding_lacks_is_escaped_and_the_stream_stays_as_it_was(tmp_path: Path) -> None:
    write_summary(tmp_path / "\u5b9e\u9a8c", [values_at(1, {"loss": 1.0})])
    written = io.BytesIO()

    with pytest.MonkeyPatch.context() as patch:
        stream = io.TextIOWrapper(written, encoding="ascii", errors="strict")
        patch.setattr(sys, "stdout", stream)
        assert main(["list", str(tmp_path)]) == 0

    assert stream.errors == "strict"
    assert b"\n\\u5b9e\\u9a8c  " in written.getvalue()


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
def test_a_standard_stream_that_is_closed_is_closed_afterwards(name: str, tmp_path: Path) -> None:
    write_summary(tmp_path, [values_at(1, {"loss": 1.0})])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, name, None)
        assert main(["list", str(tmp_path)]) == 0
        assert main(["list", str(tmp_path / "none")]) == 1
        assert getattr(sys, name) is None


def test_without_words_the_command_line_of_the_process_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path / "a", [values_at(1, {"loss": 1.0})])
    monkeypatch.setattr(sys, "argv", ["mindsummary", "list", str(tmp_path)])

    assert main() == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("a  ")


def test_json_is_indented_and_keeps_every_character(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path / "\u5b9e\u9a8c", [values_at(1, {"loss": 1.0})])

    text = mindsummary(capsys, "list", tmp_path, "--json").out

    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    assert '\n      "run": "\u5b9e\u9a8c",\n' in text


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a system without /dev/full")
def test_an_answer_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_summary(tmp_path, [values_at(1, {"loss": 1.0})])

    # with the end of the command its output is closed, which is no second error
    with open("/dev/full", "w", encoding="utf-8") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert main(["list", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "mindsummary: no space left on device\n"


@pytest.mark.slow
def test_the_exit_code_is_right_when_the_reader_has_had_enough(tmp_path: Path) -> None:
    for number in range(400):  # more than a buffer of findings
        path = write_summary(tmp_path / f"run_{number}", [values_at(1, {"loss": 1.0})])
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    command = [sys.executable, "-c", _RUN_MAIN, "verify", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()

        assert (process.stderr.read(), process.wait()) == ("", 1)


@pytest.mark.slow
def test_wrong_use_gives_2_though_nobody_reads_why(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", _RUN_MAIN, "compare", str(tmp_path), str(tmp_path)]

    assert subprocess.run(command, check=False, stdout=writer, stderr=writer).returncode == 2
    os.close(writer)


@pytest.mark.slow
@pytest.mark.parametrize("imported", ["cli", "cli.view"])
def test_neither_torch_nor_numpy_is_loaded_to_read_the_command_line(imported: str) -> None:
    code = f"import sys; import mindsummary_lightning.{imported}; "
    code += "from mindsummary_lightning.cli import main; main(['--help']); "
    code += (
        "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'google.protobuf', "
        "'lightning')))"
    )

    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL
        ).returncode
        == 0
    )


@pytest.mark.slow
def test_neither_torch_nor_protobuf_is_loaded_to_list_runs(tmp_path: Path) -> None:
    write_summary(
        tmp_path,
        [values_at(1, {"loss": 1.0}), record(Event(1.0, 1, (("picture", Image(1, 2, b"png")),)))],
    )
    code = (
        "import sys; from mindsummary_lightning.cli import main; main(['list', "
        f"{str(tmp_path)!r}]); "
    )
    code += (
        "sys.exit(any(name in sys.modules for name in ('torch', 'google.protobuf', 'lightning')))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], check=False, stdout=subprocess.PIPE, text=True
    )
    assert "1 scalar, 1 image" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize("words", [("--debug", "show", "nothing"), ("show", "nothing", "--debug")])
def test_debug_stands_on_either_side_of_the_verb(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(FileNotFoundError):
        mindsummary(capsys, *words)


def test_what_is_no_directory_of_runs_is_answered_alike_by_every_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, empty = write_summary(tmp_path / "run", [values_at(1, {"loss": 1.0})]), tmp_path / "empty"
    empty.mkdir()
    verbs = [
        ("list",),
        ("show",),
        ("verify",),
        ("repair",),
        ("lineage",),
        ("compare", tmp_path / "run"),
    ]
    verbs += [("export", "--to", "csv", "--out", "out"), ("report", "-o", "report.html")]

    for named, told in (
        (
            empty,
            (
                f"no run in {empty}: neither this directory nor a directory in it contains a "
                "summary or lineage file"
            ),
        ),
        (path, f"{path} is a file; give its directory: {path.parent}"),
        (tmp_path / "missing", f"{tmp_path / 'missing'}: no such file or directory"),
    ):
        answers = {mindsummary(capsys, verb[0], named, *verb[1:]) for verb in verbs}
        assert {(answer.out, answer.err) for answer in answers} == {("", f"mindsummary: {told}\n")}
        assert {answer.code for answer in answers} <= {1, 2}


def test_damage_that_ends_a_verb_says_what_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_summary(tmp_path / "run", [values_at(1, {"loss": 1.0})])
    path.write_bytes(path.read_bytes()[:-1] + b"?")

    assert mindsummary(capsys, "verify", tmp_path / "run").code == 1
    for words in (
        ("show",),
        ("compare", tmp_path / "run"),
        ("export", "--to", "npy", "--out", tmp_path / "out"),
    ):
        answer = mindsummary(capsys, words[0], tmp_path / "run", *words[1:])
        assert answer.err.startswith("mindsummary: record at byte ")
        assert answer.err.endswith("; run `mindsummary repair`\n")
