"""Every verb with every spelling of a place: a path, ``file://``, ``local://``, and the addresses
of remote stores.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("fsspec")
pytest.importorskip("jinja2")
pytest.importorskip("tensorboard")

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.cli.verbs import VERBS
from mindsummary_lightning.export.tensorboard import export_tensorboard
from mindsummary_lightning.values import UserDefinedInfo
from tests.cli.command import mindsummary

# What each verb is given; {} is a place. Nothing here serves pages or trains.
_READS = {
    "list": "{}/runs",
    "show": "{}/runs/a",
    "lineage": "{}/runs",
    "compare": "{}/runs/a {}/runs/a",
    "report": "{}/runs -o page.html",
    "dump": "{}/runs/a/FILE",
    "verify": "{}/runs",
    "repair": "{}/runs",
    "export": "{}/runs/a --to csv --out out",
    "import": "{}/boards --out out",
    "landscape": "{}/runs/a",
    "sync": "{}/runs out",
}
_WRITES = {
    "report": "runs -o {}/page.html",
    "compare": "runs/a runs/a --html {}/page.html",
    "export": "runs/a --to csv --out {}/out",
    "import": "boards --out={}/out",
    "sync": "runs {}/out",
}
_WITHOUT_PLACE = {"view", "doctor", "completion"}  # view is tried below
_LOCAL = ("file://", "local://", "file:", "local:")  # before a path that begins with a slash
_REMOTE = ("memory://store", "s3://bucket/runs", "s3:/bucket/runs")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("place")
    with SummaryRecord(place / "runs" / "a") as record:
        record.add_value("scalar", "loss", 1.0)
        record.add_value("custom_lineage_data", "settings", UserDefinedInfo({"seed": 1}))
        record.record(1)
    export_tensorboard(str(place / "runs" / "a"), str(place / "boards"))
    return place


def _words(verb: str, text: str, place: str, file: str) -> list[str]:
    words = text.replace("FILE", file).split()
    return [verb, *(word.format(place, place) for word in words)]


@pytest.fixture
def file(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of the run's summary file; the working directory has the runs under their own names."""
    monkeypatch.chdir(tmp_path)
    for name in ("runs", "boards"):
        (tmp_path / name).symlink_to(place / name)
    return next(path.name for path in (place / "runs" / "a").iterdir() if "summary" in path.name)


def _below(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_symlink()
    }


def test_every_verb_is_tried() -> None:
    assert {*_READS, *_WITHOUT_PLACE} == {*VERBS}


@pytest.mark.parametrize("scheme", _LOCAL)
@pytest.mark.parametrize("verb", _READS)
def test_a_verb_reads_the_same_from_every_spelling_of_a_local_place(
    verb: str,
    scheme: str,
    place: Path,
    file: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = mindsummary(capsys, *_words(verb, _READS[verb], str(place), file))
    made = _below(tmp_path)
    shutil.rmtree("out", ignore_errors=True)

    spelt = mindsummary(capsys, *_words(verb, _READS[verb], f"{scheme}{place}", file))

    assert (spelt.code, spelt.out, spelt.err) == (plain.code, plain.out, plain.err)
    assert _below(tmp_path) == made


@pytest.mark.parametrize("scheme", _LOCAL)
@pytest.mark.parametrize("verb", _WRITES)
def test_a_verb_writes_to_every_spelling_of_a_local_place(
    verb: str, scheme: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _below(tmp_path)

    answer = mindsummary(capsys, *_words(verb, _WRITES[verb], f"{scheme}{tmp_path}", file))

    # 2: the comparison of a run with itself is undecided
    assert (answer.code in (0, 2), answer.err) == (True, "")
    made = {name for name in _below(tmp_path) - before if not name.startswith("out/")}
    assert made == {"page.html" if verb in ("report", "compare") else "out"}


@pytest.mark.parametrize("address", _REMOTE)
@pytest.mark.parametrize("verb", sorted({*_READS} - {"sync"}))
def test_a_verb_that_reads_local_runs_says_so_of_a_remote_store(
    verb: str, address: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _below(tmp_path)

    answer = mindsummary(capsys, *_words(verb, _READS[verb], address, file))

    assert answer.code in (1, 2)
    (line,) = answer.err.splitlines()
    assert "remote store" in line
    assert _below(tmp_path) == before


@pytest.mark.parametrize("address", _REMOTE)
@pytest.mark.parametrize("verb", sorted({*_WRITES} - {"sync"}))
def test_a_verb_that_writes_files_makes_none_named_after_a_remote_store(
    verb: str, address: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _below(tmp_path)

    answer = mindsummary(capsys, *_words(verb, _WRITES[verb], address, file))

    assert answer.code in (1, 2)
    (line,) = answer.err.splitlines()
    assert "must be a local path" in line
    assert _below(tmp_path) == before


@pytest.mark.parametrize("address", ["memory://{}", "memory:/{}"])
def test_sync_takes_the_address_of_a_store_with_one_slash_too(
    address: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    far = address.format(f"{tmp_path.name}/runs")
    sent = mindsummary(capsys, "sync", "runs", far)
    back = mindsummary(capsys, "sync", far, "back")

    assert (sent.code, back.code, sent.err, back.err) == (0, 0, "", "")
    assert not [name for name in os.listdir() if ":" in name]
    assert os.path.exists(f"back/a/{file}")


@pytest.mark.parametrize("scheme", _LOCAL)
def test_the_viewer_takes_every_spelling_of_a_local_place(
    scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = mindsummary(capsys, "view", f"{scheme}{tmp_path}/nowhere", "--no-browser")

    assert answer.err == f"mindsummary: {tmp_path}/nowhere is not a directory\n"
