from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mindsummary_lightning as ms
from mindsummary_lightning.export.tables import export_csv, export_npy
from mindsummary_lightning.export.tensorboard import export_tensorboard, import_tensorboard
from mindsummary_lightning.values.addresses import (
    is_remote,
    with_both_slashes,
    without_local_scheme,
)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("file:///a/b%20c", "/a/b%20c"),
        ("file:/a", "/a"),
        ("local:///a", "/a"),
        ("file://a/b", "a/b"),
        ("/a", "/a"),
        ("a", "a"),
        ("", ""),
        ("file:a", "file:a"),
        ("s3://file:///a", "s3://file:///a"),
        ("file:///a/file:///b", "/a/file:///b"),
    ],
)
def test_a_local_address_is_the_path_that_fsspec_makes_of_it(place: str, path: str) -> None:
    assert without_local_scheme(place) == path


@pytest.mark.parametrize(
    ("place", "remote"),
    [("s3://b/x", True), ("s3:/b/x", True), ("simplecache::s3://b", True), ("file:///a", False),
    ("C:/a", False),
     ("C:\\a", False), ("runs", False), ("a:b/c", False), ("local:/a", False)],
)  # fmt: skip
def test_a_remote_address_is_told_from_a_path(place: str, remote: bool) -> None:
    assert is_remote(place) == remote


def test_the_slash_that_pathlib_takes_comes_back() -> None:
    assert with_both_slashes(str(Path("s3://bucket/x"))) == "s3://bucket/x"
    assert with_both_slashes("memory:///x") == "memory:///x"
    assert with_both_slashes("/a/b:/c") == "/a/b:/c"
    assert with_both_slashes("s3:/a:/b") == "s3://a:/b"
    assert with_both_slashes("C:/a") == "C:/a"


def _record(place: Any) -> None:
    with ms.SummaryRecord(place) as record:
        record.add_scalar("loss", 1.0, 1)


_OUTS: list[Callable[[str, str], object]] = [export_csv, export_npy, export_tensorboard]


@pytest.mark.parametrize("spelt", ["file://{}", "local://{}", "file:{}"])
def test_python_takes_a_local_address_wherever_it_takes_a_path(
    spelt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    run = spelt.format(tmp_path / "runs" / "a")
    _record(run)

    assert ms.SummaryReader(run).scalars("loss").steps.tolist() == [1]
    assert len(ms.read_scalars(spelt.format(tmp_path / "runs"))) == 1
    for number, export in enumerate(_OUTS):
        export(run, spelt.format(tmp_path / f"out{number}"))
    import_tensorboard(spelt.format(tmp_path / "out2"), spelt.format(tmp_path / "back"))
    assert ms.SummaryReader(tmp_path / "back").scalars("loss").steps.tolist() == [1]
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "out0", "out1", "out2", "back"}


def test_a_reader_of_a_remote_path_of_pathlib_names_the_line_that_brings_it() -> None:
    with pytest.raises(NotADirectoryError, match="mindsummary sync s3://bucket/runs runs"):
        ms.SummaryReader(Path("s3://bucket/runs"))
