from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from mindsummary_lightning.viewer import frontend
from mindsummary_lightning.viewer.frontend import (
    WHEEL_NAME,
    available_frontend,
    frontend_wheel,
    has_frontend,
    static_files,
)
from tests.viewer.small_frontend import SCRIPT, SMALL_SHA256, SMALL_WHEEL, put_into_cache


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "mindsummary-lightning"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small wheel in the place of MindInsight's."""
    path = tmp_path / WHEEL_NAME
    path.write_bytes(SMALL_WHEEL)
    monkeypatch.setattr(frontend, "WHEEL_SHA256", SMALL_SHA256)
    return path


def _refuse(line: str) -> None:
    raise AssertionError(line)


def test_it_is_put_into_the_cache_once(wheel: Path, cache: Path) -> None:
    content = wheel.read_bytes()
    assert not has_frontend()
    assert frontend_wheel(lambda line: None, str(wheel)) == content
    wheel.unlink()

    assert has_frontend()
    assert frontend_wheel(_refuse, str(wheel)) == content
    assert [path.name for path in cache.iterdir()] == [WHEEL_NAME]


def test_another_wheel_is_refused(wheel: Path, cache: Path) -> None:
    with open(wheel, "ab") as file:
        file.write(b"\0")

    with pytest.raises(OSError, match=r"is not the wheel of mindinsight==2\.3\.1: its sha256 is"):
        frontend_wheel(_refuse, str(wheel))
    assert list(cache.iterdir()) == []


def test_what_was_changed_in_the_cache_is_fetched_again(wheel: Path, cache: Path) -> None:
    put_into_cache(cache.parent).write_bytes(b"let evil = 1;")
    said: list[str] = []

    assert frontend_wheel(said.append, str(wheel)) == wheel.read_bytes()
    assert "fetching the front end again" in said[0]
    assert "its sha256 is" in said[0]
    assert frontend_wheel(_refuse) == wheel.read_bytes()


def test_a_wheel_that_does_not_exist_is_named(cache: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        frontend_wheel(_refuse, "nowhere.whl")


def test_only_the_pages_are_served() -> None:
    assert sorted(static_files(SMALL_WHEEL)) == [
        "/",
        "/graphvizlib.wasm",
        "/static/js/app.01234567.js",
        "/static/js/graphvizlib.wasm",
    ]


def test_a_file_is_the_wheels() -> None:
    assert static_files(SMALL_WHEEL)["/static/js/app.01234567.js"].content().decode() == SCRIPT


def _quoted(path: Path) -> str:
    """A path as a shell takes it."""
    return shlex.quote(str(path))


def _fake_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    """A pip that notes its arguments and variables; returns the folder of the notes."""
    script = tmp_path / "fake" / "pip"
    script.parent.mkdir()
    script.write_text(
        f"#!/bin/sh\nnotes={_quoted(tmp_path)}\n"
        'echo "$@" > "$notes/arguments"; env > "$notes/variables"; pwd > "$notes/cwd"\n'
        f"{text}\n",
        encoding="utf-8",
    )
    script.chmod(0o700)
    monkeypatch.setattr(frontend, "find_pip", lambda: [str(script)])
    return tmp_path


@pytest.mark.skipif(os.name == "nt", reason="the fake is a shell script")
def test_it_is_downloaded_by_pip_with_the_users_settings(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    while_ = 'while [ "$1" != --dest ]; do shift; done; cp'
    notes = _fake_pip(tmp_path, monkeypatch, f'{while_} {_quoted(wheel)} "$2"')
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    monkeypatch.chdir(tmp_path)
    said: list[str] = []

    assert frontend_wheel(said.append) == SMALL_WHEEL

    download, folder, requirement = re.fullmatch(
        r"(.*) --dest (\S+) --requirement (\S+) --quiet --no-input --disable-pip-version-check\n",
        (notes / "arguments").read_text(encoding="utf-8"),
    ).groups()  # type: ignore[union-attr]
    assert download == "download --no-deps --only-binary=:all:"
    assert (Path(folder).parent, Path(requirement).parent) == (cache, Path(folder))
    assert [path.name for path in cache.iterdir()] == [WHEEL_NAME]  # nor is the folder left
    variables = (notes / "variables").read_text(encoding="utf-8")
    assert "PIP_INDEX_URL=https://index.example/simple" in variables
    assert (notes / "cwd").read_text(encoding="utf-8").strip() != str(tmp_path)
    assert [line.split(" ")[0] for line in said] == ["fetching", "MindInsight's"]


@pytest.mark.skipif(os.name == "nt", reason="the fake is a shell script")
def test_the_address_of_a_mirrors_wheel_is_enough(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = (
        f'while [ "$1" != --dest ]; do shift; done; cp {_quoted(wheel)} "$2"; cp "$4" '
        f"{_quoted(tmp_path)}/asked"
    )
    _fake_pip(tmp_path, monkeypatch, copy)
    address = f"https://mirror.example/{WHEEL_NAME}"

    assert frontend_wheel(lambda line: None, address) == SMALL_WHEEL
    assert (tmp_path / "asked").read_text(
        encoding="utf-8"
    ) == f"{address} --hash=sha256:{SMALL_SHA256}\n"


@pytest.mark.skipif(os.name == "nt", reason="the fake is a shell script")
def test_without_a_network_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    said = "echo out; echo WARNING: Retrying >&2; echo '   no  matching distribution' >&2"
    _fake_pip(tmp_path, monkeypatch, f"{said}; exit 1")

    with pytest.raises(
        OSError,
        match=(
            r"could not be fetched: out no matching distribution\. On a machine with internet "
            r"access, run `.* --wheel mindinsight-"
        ),
    ):
        frontend_wheel(lambda line: None)
    assert list(cache.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="the fake is a shell script")
@pytest.mark.parametrize("copied", ["x.whl", "x.txt"])
def test_a_download_that_fails_or_brings_no_wheel_is_refused(
    copied: str, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    status = int(copied.endswith("whl"))
    copy = f'while [ "$1" != --dest ]; do shift; done; cp {_quoted(wheel)} "$2/{copied}"'
    _fake_pip(tmp_path, monkeypatch, f"{copy}; echo why; exit {status}")

    with pytest.raises(OSError, match=r"could not be fetched: why\. On"):
        frontend_wheel(lambda line: None)
    assert list(cache.iterdir()) == []


def test_without_pip_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontend, "find_pip", lambda: None)

    with pytest.raises(OSError, match="has no pip, and neither pip nor uv is on PATH"):
        frontend_wheel(_refuse)


def test_where_it_cannot_be_had_one_line_says_so_and_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, wheel: Path, cache: Path
) -> None:
    monkeypatch.setattr(frontend, "find_pip", lambda: None)
    said: list[str] = []

    assert available_frontend(said.append) is None
    assert len(said) == 1
    assert "only the table of runs is shown" in said[0]
    assert f"--wheel {WHEEL_NAME}" in said[0]

    assert (
        available_frontend(lambda line: None, str(wheel))
        == available_frontend(_refuse)
        == SMALL_WHEEL
    )


def test_a_wheel_that_the_user_names_must_be_the_front_end() -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        available_frontend(_refuse, "nowhere.whl")


def test_a_cache_that_cannot_be_trusted_leaves_the_table_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> str:
        raise PermissionError("the cache belongs to another user")

    monkeypatch.setattr(frontend, "cache_directory", refuse)
    said: list[str] = []

    assert available_frontend(said.append) is None
    assert "belongs to another user" in said[0]


def _program(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o700)
    return str(path)


@pytest.mark.skipif(os.name == "nt", reason="the fakes are shell scripts")
def test_the_pip_of_this_python_is_asked_for_before_those_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    note = f'echo "$@" > {_quoted(tmp_path / "asked")}; pwd >> {_quoted(tmp_path / "asked")}'
    python = _program(tmp_path / "python", note)
    monkeypatch.setattr(sys, "executable", python)

    assert frontend.find_pip() == [python, "-I", "-m", "pip"]
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert asked == f"-I -m pip --version\n{cache}\n"


@pytest.mark.skipif(os.name == "nt", reason="the fakes are shell scripts")
def test_without_a_pip_of_its_own_the_first_on_path_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", _program(tmp_path / "python", "exit 1"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    assert frontend.find_pip() is None
    uv = _program(tmp_path / "bin" / "uv", "")
    assert frontend.find_pip() == [uv, "tool", "run", "pip"]
    for name in ("pip", "pip3"):
        program = _program(tmp_path / "bin" / name, "")
        assert frontend.find_pip() == [program]


@pytest.mark.slow
def test_this_environments_own_pip_comes_first() -> None:
    assert frontend.find_pip() == [sys.executable, "-I", "-m", "pip"]


@pytest.mark.slow
def test_pip_in_the_working_directory_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pip.py", "venv.py", "zipfile.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))

    with pytest.raises(OSError, match="could not be fetched"):
        frontend_wheel(lambda line: None)
    assert not (tmp_path / "was_run").exists()
