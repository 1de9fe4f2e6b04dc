from __future__ import annotations

import gzip
import hashlib
import os
import stat
import sys
import zipfile
from pathlib import Path

import pytest

from mindsummary_lightning.mindinsight import frontend
from mindsummary_lightning.mindinsight.frontend import frontend_directory, has_frontend, unpack_pages

_INFO = "mindinsight-2.3.1.dist-info"
_FILES = {
    "mindinsight/__init__.py": b"raise SystemExit",
    "mindinsight/ui/dist/index.html": b"<title>MindInsight</title>",
    "mindinsight/ui/dist/static/js/app.js": b"let answer = 42;",
    "mindinsight/ui/dist/static/img/logo.png": b"\x89PNG",
    f"{_INFO}/LICENSE": b"Apache License",
    f"{_INFO}/NOTICE": b"MindSpore MindInsight",
    f"{_INFO}/RECORD": b"",
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "mindsummary-lightning"


def _zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small wheel in the place of MindInsight's."""
    path = _zip(tmp_path / "mindinsight-2.3.1-py3-none-any.whl", _FILES)
    monkeypatch.setattr(frontend, "WHEEL_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def _refuse(line: str) -> None:
    raise AssertionError(line)


def test_only_the_pages_and_their_notices_are_unpacked(wheel: Path, cache: Path) -> None:
    directory = Path(frontend_directory(print, str(wheel)))

    found = {str(path.relative_to(directory.parent)) for path in directory.parent.rglob("*") if path.is_file()}
    assert found == {
        "LICENSE",
        "NOTICE",
        "dist/index.html",
        "dist/index.html.gz",
        "dist/static/img/logo.png",
        "dist/static/js/app.js",
        "dist/static/js/app.js.gz",
    }
    assert gzip.decompress((directory / "static/js/app.js.gz").read_bytes()) == b"let answer = 42;"
    assert [path.name for path in cache.iterdir()] == [directory.parent.name]


def test_it_is_unpacked_once(wheel: Path) -> None:
    assert not has_frontend()
    first = frontend_directory(lambda line: None, str(wheel))
    wheel.unlink()

    assert has_frontend()
    assert frontend_directory(_refuse, str(wheel)) == first


def test_another_wheel_is_refused(wheel: Path, cache: Path) -> None:
    with open(wheel, "ab") as file:
        file.write(b"\0")

    with pytest.raises(OSError, match=r"is not the wheel of mindinsight==2\.3\.1: its sha256 is"):
        frontend_directory(_refuse, str(wheel))
    assert list(cache.iterdir()) == []


def test_a_wheel_that_does_not_exist_is_named(cache: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        frontend_directory(_refuse, "nowhere.whl")


@pytest.mark.parametrize("name", ["../x.js", "static/../../../x.js", "..\\x.js", "C:x.js", "static/a\\..\\..\\x.js"])
def test_no_name_leads_out_of_the_directory(tmp_path: Path, name: str) -> None:
    path = _zip(tmp_path / "evil.whl", {f"mindinsight/ui/dist/{name}": b"evil"})
    before = set(tmp_path.rglob("*"))

    with zipfile.ZipFile(path) as archive, pytest.raises(OSError, match="would be written elsewhere"):
        unpack_pages(archive, str(tmp_path / "target"))
    assert set(tmp_path.rglob("*")) == before


def test_a_symbolic_link_is_written_as_a_file(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("mindinsight/ui/dist/index.html")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.whl", "w") as archive:
        archive.writestr(link, "/etc/passwd")

    with zipfile.ZipFile(tmp_path / "link.whl") as archive:
        unpack_pages(archive, str(tmp_path / "target"))
    assert not (tmp_path / "target" / "dist" / "index.html").is_symlink()


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend, "_MAX_BYTES", 1000)
    path = _zip(tmp_path / "bomb.whl", {"mindinsight/ui/dist/a.js": bytes(1001)})

    with zipfile.ZipFile(path) as archive, pytest.raises(OSError, match="larger than 1000 bytes"):
        unpack_pages(archive, str(tmp_path / "target"))


def _fake_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    """A pip that notes its arguments and variables; returns the folder of the notes."""
    script = tmp_path / "fake" / "pip"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/arguments; env > {tmp_path}/variables; pwd > {tmp_path}/cwd\n{text}\n'
    )
    script.chmod(0o700)
    monkeypatch.setattr(frontend, "find_pip", lambda: [str(script)])
    return tmp_path


@pytest.mark.skipif(os.name == "nt", reason="the fake is a shell script")
def test_it_is_downloaded_by_pip_with_the_users_settings(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    while_ = 'while [ "$1" != --dest ]; do shift; done; cp'
    notes = _fake_pip(tmp_path, monkeypatch, f'{while_} {wheel} "$2"')
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)
    said: list[str] = []

    assert Path(frontend_directory(said.append), "index.html").exists()

    assert "download --no-deps --only-binary=:all: --dest" in (notes / "arguments").read_text()
    variables = (notes / "variables").read_text()
    assert "PIP_INDEX_URL=https://index.example/simple" in variables
    assert "PIP_TARGET" not in variables
    assert (notes / "cwd").read_text().strip() != str(tmp_path)
    assert [line.split(" ")[0] for line in said] == ["fetching", "unpacked"]


@pytest.mark.skipif(os.name == "nt", reason="the fake is a shell script")
def test_without_a_network_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    _fake_pip(tmp_path, monkeypatch, "echo no matching distribution; exit 1")

    with pytest.raises(
        OSError, match=r"could not be fetched: no matching distribution\. Without an index.*--wheel FILE"
    ):
        frontend_directory(lambda line: None)
    assert list(cache.iterdir()) == []


def test_without_pip_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend, "find_pip", lambda: None)

    with pytest.raises(OSError, match="has no pip, and neither pip nor uv is on PATH"):
        frontend_directory(_refuse)


@pytest.mark.slow
def test_this_environments_own_pip_comes_first() -> None:
    assert frontend.find_pip() == [sys.executable, "-I", "-m", "pip"]


@pytest.mark.slow
def test_pip_in_the_working_directory_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pip.py", "venv.py", "zipfile.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))

    with pytest.raises(OSError, match="could not be fetched"):
        frontend_directory(lambda line: None)
    assert not (tmp_path / "was_run").exists()
