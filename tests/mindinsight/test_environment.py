from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from mindsummary_lightning.mindinsight import environment
from mindsummary_lightning.mindinsight.environment import PINS, PYTHON_VARIABLE, cache_directory, viewer_python


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    return tmp_path / "cache"


def _script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def fake_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for Python 3.11: ``-m venv DIR`` puts itself there, everything it is asked is noted."""
    notes = tmp_path / "notes"
    text = f'echo "$@" >> {notes}; if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; fi'
    python = _script(tmp_path / "bin" / "python3.11", text)
    monkeypatch.setattr(environment, "_find_python", lambda: python)
    return notes


@pytest.mark.skipif(sys.platform != "linux", reason="the rule of Linux")
def test_the_cache_lies_where_the_platform_wants_it(cache: Path) -> None:
    assert cache_directory() == str(cache / "mindsummary-lightning")


def test_an_environment_is_made_once_with_the_versions_that_work(fake_python: Path) -> None:
    said: list[str] = []

    first = viewer_python(said.append)
    second = viewer_python(said.append)

    assert first == second
    assert Path(first).exists()
    _, install = fake_python.read_text().splitlines()
    assert install == f"-m pip install --disable-pip-version-check {' '.join(PINS)}"
    assert [line.split(":")[0] for line in said[:2]] == ["making an environment for MindInsight, once"] * 2


def test_reinstall_makes_it_again(fake_python: Path) -> None:
    viewer_python(print)
    viewer_python(print, reinstall=True)

    assert len(fake_python.read_text().splitlines()) == 4


def test_a_wheelhouse_needs_no_network(fake_python: Path, tmp_path: Path) -> None:
    viewer_python(print, wheelhouse=str(tmp_path))

    assert f"--no-index --find-links {tmp_path} mindinsight==2.3.1" in fake_python.read_text()


def test_a_wheelhouse_that_is_not_there_is_refused(fake_python: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"--wheelhouse .*wheels is no directory"):
        viewer_python(print, wheelhouse=str(tmp_path / "wheels"))


def test_packages_of_another_python_are_not_taken_for_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f'env >> {tmp_path}/variables; if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; fi'
    python = _script(tmp_path / "python3.11", text)
    monkeypatch.setattr(environment, "_find_python", lambda: python)
    monkeypatch.setenv("PYTHONPATH", "/opt/toolkit/python")
    monkeypatch.setenv("PIP_USER", "1")

    viewer_python(print)

    variables = (tmp_path / "variables").read_text()
    assert "PYTHONPATH" not in variables
    assert "PIP_USER=1" not in variables


def test_an_install_that_failed_is_not_taken_for_an_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'if [ "$2" = venv ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; else echo no such version; exit 1; fi'
    python = _script(tmp_path / "python3.11", text)
    monkeypatch.setattr(environment, "_find_python", lambda: python)

    for _ in range(2):
        with pytest.raises(OSError, match=r"pip install failed \(.*--wheelhouse\);.*no such version"):
            viewer_python(print)
    assert environment.environment_python() is None


def test_uv_is_used_where_no_python_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = tmp_path / "notes"
    _script(tmp_path / "bin" / "uv", f'echo "$@" >> {notes}; mkdir -p "$4/bin"')
    monkeypatch.setattr(environment, "_find_python", lambda: None)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    python = viewer_python(print)

    venv, install = notes.read_text().splitlines()
    assert venv.startswith("venv --python 3.11 ")
    assert install.startswith(f"pip install --python {python} mindinsight==2.3.1")


def test_without_python_and_uv_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_find_python", lambda: None)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(FileNotFoundError, match=r"Python 3\.9, 3\.10 or 3\.11.*uv.*MINDSUMMARY_VIEWER_PYTHON"):
        viewer_python(print)


def test_a_python_is_asked_for_its_version_and_not_believed_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = _script(tmp_path / "bin" / "python3.11", "echo 3 13")
    failing = _script(tmp_path / "bin" / "python3.10", "exit 127")
    right = _script(tmp_path / "bin" / "python3.9", "echo 3 9")
    monkeypatch.setattr(environment, "_candidates", lambda: iter([wrong, failing, right]))

    assert environment._find_python() == right


def test_a_given_python_must_have_mindinsight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, sys.executable)

    with pytest.raises(FileNotFoundError, match="no MindInsight that can be imported"):
        viewer_python(print)
