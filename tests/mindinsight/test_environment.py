from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from mindsummary_lightning.mindinsight import environment
from mindsummary_lightning.mindinsight.environment import PYTHON_VARIABLE, original_python
from mindsummary_lightning.mindinsight.pins import PINS

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the original MindInsight does not run on Windows")
# Stands in for Python 3.11: notes what it is asked, and makes an environment by putting itself there.
_PYTHON = """#!/bin/sh
echo "$@" >> {notes}
case "$*" in
  *version_info*) echo 3 11 ;;
  *"-m venv "*) mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;
  *"pip install"*) {install} ;;
  *"import gunicorn"*) {imports} ;;
esac
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    return tmp_path / "cache" / "mindsummary-lightning"


def _script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def _fake_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: str = ":", imports: str = ":") -> Path:
    """The only Python there is; returns its notes."""
    notes = tmp_path / "notes"
    text = _PYTHON.format(notes=notes, install=install, imports=imports)
    python = _script(tmp_path / "bin" / "python3.11", text)
    monkeypatch.setattr(environment, "_candidates", lambda: iter([python]))
    return notes


def test_an_environment_is_made_once_with_the_versions_that_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = _fake_python(tmp_path, monkeypatch)
    said: list[str] = []

    first = original_python(said.append)
    asked = notes.read_text().splitlines()
    second = original_python(said.append)

    assert first == second
    assert f"-I -m pip install --disable-pip-version-check {' '.join(PINS)}" in asked
    assert all(line.startswith("-I ") for line in asked)
    assert notes.read_text().splitlines() == asked
    assert len(said) == 2


@pytest.mark.parametrize(
    ("install", "imports", "said"),
    [
        ("echo no such version; exit 1", ":", "pip install failed: no such version"),
        (
            ":",
            "echo No module named gunicorn >&2; exit 1",
            "was made, but MindInsight cannot be imported there: No module",
        ),
    ],
)
def test_an_environment_that_is_not_one_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: str, imports: str, said: str
) -> None:
    notes = _fake_python(tmp_path, monkeypatch, install, imports)

    for times in (1, 2):
        with pytest.raises(OSError, match=said):
            original_python(lambda line: None)
        assert notes.read_text().count("-m venv") == times


def test_what_redirects_pip_does_not_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_python(tmp_path, monkeypatch, install=f"env > {tmp_path}/variables; pwd > {tmp_path}/cwd")
    monkeypatch.chdir(tmp_path)
    for name in ("PIP_TARGET", "PIP_DRY_RUN", "PYTHONPATH"):
        monkeypatch.setenv(name, "elsewhere")

    original_python(lambda line: None)

    assert "elsewhere" not in (tmp_path / "variables").read_text()
    assert (tmp_path / "cwd").read_text().strip() != str(tmp_path)


def test_uv_is_used_where_no_python_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = tmp_path / "notes"
    make = '[ "$1" = venv ] && mkdir -p "$4/bin" && ln -s /bin/true "$4/bin/python"'
    uv = f'#!/bin/sh\necho "$@" >> {notes}\n{make}; exit 0\n'
    _script(tmp_path / "bin" / "uv", uv)
    monkeypatch.setattr(environment, "_candidates", lambda: iter(()))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    python = original_python(lambda line: None)

    venv, install = notes.read_text().splitlines()
    assert venv.startswith("venv --python 3.11 ")
    assert install == f"pip install --python {python} {' '.join(PINS)}"


def test_without_python_and_uv_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_candidates", lambda: iter(()))
    monkeypatch.setenv("PATH", "")

    with pytest.raises(FileNotFoundError, match=r"Python 3\.9, 3\.10 or 3\.11.*uv.*MINDSUMMARY_VIEWER_PYTHON"):
        original_python(print)


def test_a_python_is_asked_for_its_version_and_not_believed_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = _script(tmp_path / "bin" / "python3.11", "#!/bin/sh\necho 3 13\n")
    failing = _script(tmp_path / "bin" / "python3.10", "#!/bin/sh\nexit 127\n")
    right = _script(tmp_path / "bin" / "python3.9", "#!/bin/sh\necho 3 9\n")
    monkeypatch.setattr(environment, "_candidates", lambda: iter([wrong, failing, right]))

    assert environment._steps("/made")[0][1] == [right, "-I", "-m", "venv", "/made"]


def test_a_given_python_must_have_mindinsight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, sys.executable)

    with pytest.raises(FileNotFoundError, match=r"cannot import MindInsight: .*gunicorn"):
        original_python(print)
