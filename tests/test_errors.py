from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mindsummary_lightning
from mindsummary_lightning.errors import (
    DamagedFileError,
    ForeignFileError,
    RecordTooLargeError,
    closest,
    error_text,
    imported,
    missing_packages,
    named_error,
    printable,
)
from mindsummary_lightning.export.parquet_dataset import export_parquet
from mindsummary_lightning.export.tensorboard import export_tensorboard, import_tensorboard
from mindsummary_lightning.lineage.table import lineage_to_pandas
from mindsummary_lightning.reading.summary_reader import SummaryReader
from tests.reading.runs import write_summary


def test_missing_packages_are_named_as_pip_does() -> None:
    assert (
        str(missing_packages("the viewer", "aiohttp"))
        == "the viewer needs aiohttp: pip install aiohttp"
    )
    assert str(missing_packages("it", "a", "b")) == "it needs a and b: pip install a b"
    assert str(missing_packages("it", "a", "b", "c")) == "it needs a, b and c: pip install a b c"


def test_a_package_that_is_there_is_imported_and_another_named_by_what_needs_it() -> None:
    assert imported("json.decoder", "it").JSONDecodeError
    with pytest.raises(ImportError, match=r"^the page needs no_such_one: pip install no_such_one$"):
        imported("no_such_one", "the page")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("los", "; closest: 'LOSS2', 'loss', 'loss/val'"),
        ("lsos", "; closest: 'loss', 'zloss4'"),
        ("VAL", "; closest: 'loss/val'"),
        ("acc", ""),
        ("", ""),
        (3, ""),
    ],
)
def test_a_hint_names_at_most_three_names_that_are_like_it(name: object, hint: str) -> None:
    names = iter(["loss/val", "loss", "zloss4", "LOSS2"])

    assert closest(name, names) == hint


@pytest.mark.parametrize("kind", [TypeError, ValueError, RecordTooLargeError])
def test_an_error_gets_a_name_in_front(kind: type[Exception]) -> None:
    named = named_error("loss", kind("must be small"))

    assert (type(named), str(named)) == (kind, "loss: must be small")


def test_an_error_of_another_class_stays_as_it_is() -> None:
    for error in (KeyError("a"), DamagedFileError("a", 3, "torn"), KeyboardInterrupt()):
        assert named_error("loss", error) is error


def test_an_error_of_a_damaged_file_says_where_and_why_in_another_process_too() -> None:
    error = DamagedFileError("a.summary", 30, "the length is wrong")
    copy = pickle.loads(pickle.dumps(error))

    for each in (error, copy):
        assert str(each) == "record at byte 30 of a.summary: the length is wrong"
        assert (each.path, each.offset, each.reason) == ("a.summary", 30, "the length is wrong")
    assert type(copy) is DamagedFileError


def test_a_file_that_is_not_replaced_is_named_with_the_way_out() -> None:
    assert str(ForeignFileError("b/x", "a/x")) == (
        "b/x differs from a/x and is newer, so it is not replaced; to replace it, add --force"
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(2, "No such file", "a\x1b"), "a\\u001b: no such file"),
        (PermissionError(13, "Permission denied", b"a"), "a: permission denied"),
        (OSError(28, "No space left on device"), "no space left on device"),
        (OSError(2, "No such file", ""), "'': no such file"),
        (OSError("only words"), "only words"),
        (OSError(), "OSError"),
        (KeyError("a"), "'a'"),
        (ValueError(" a\n\tb  c "), "a b c"),
        (ValueError("\u202e\U0010ffff"), "\\u202e\\udbff\\udfff"),
    ],
    ids=repr,
)
def test_the_text_of_an_error_is_one_line_with_path_and_reason(error: Exception, text: str) -> None:
    assert error_text(error) == text


def test_an_interrupt_while_an_error_is_written_out_is_passed_on() -> None:
    class Interrupted(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        error_text(Interrupted())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("损失 ø", "损失 ø"),
        ("", ""),
        ("a\tb\x7f", "a\\u0009b\\u007f"),
        ("\U0001f600\x00", "\U0001f600\\u0000"),
        ("\ud800", "\\ud800"),
    ],
)
def test_only_what_is_not_printable_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("pandas", lambda run: SummaryReader(run).to_pandas()),
        ("pandas", lambda run: lineage_to_pandas(run)),
        ("pyarrow", lambda run: export_parquet(run, "out")),
        ("tensorboard", lambda run: export_tensorboard(run, "out")),
        ("tensorboard", lambda run: import_tensorboard(run, "out")),
    ],
)
def test_what_needs_a_package_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, call: Callable[[str], object]
) -> None:
    write_summary(tmp_path / "run", [])
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(ImportError, match=f"pip install {package}$"):
        call(str(tmp_path / "run"))


def test_no_message_asks_for_this_project_with_an_extra() -> None:
    sources = Path(mindsummary_lightning.__file__).parent.rglob("*.py")

    assert [
        path.name
        for path in sources
        if "mindsummary-lightning[" in path.read_text(encoding="utf-8")
    ] == []
