from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mindsummary_lightning.viewer.isolated_process import (
    find_program,
    isolated_variables,
    python_command,
    run_isolated,
)
from mindsummary_lightning.viewer.user_directories import cache_directory


@pytest.mark.slow
def test_a_python_that_we_start_imports_nothing_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "colorsys.py").write_text("raise SystemExit('code from the working directory')")
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('code from PYTHONPATH')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code = "import colorsys, subprocess, sys; subprocess.run([sys.executable, '-m', 'colorsys'], check=True)"

    done = subprocess.run(
        python_command(sys.executable, "-c", code), env=isolated_variables(), capture_output=True, text=True
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "name",
    ["PIP_TARGET", "PIP_PREFIX", "PIP_DRY_RUN", "PIP_USER", "PIP_PYTHON", "PYTHONPATH", "PYTHONHOME", "pip_target"],
)
def test_a_variable_that_redirects_an_installation_is_dropped(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "elsewhere")

    assert name not in isolated_variables()


@pytest.mark.parametrize(
    "name",
    ["PIP_INDEX_URL", "PIP_REQUIRE_HASHES", "PIP_REQUIRE_VIRTUALENV", "PIP_CERT", "https_proxy", "PYTHONHASHSEED"],
)
def test_a_variable_of_an_index_or_a_safeguard_is_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")

    assert isolated_variables()[name] == "1"
    assert isolated_variables()["PYTHONSAFEPATH"] == "1"


def test_a_program_is_not_looked_for_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path, tmp_path / "bin"):
        folder.mkdir(exist_ok=True)
        (folder / "uv").write_text("#!/bin/sh\n")
        (folder / "uv").chmod(0o700)
    monkeypatch.chdir(tmp_path)

    monkeypatch.setenv("PATH", os.pathsep.join(["", ".", "bin"]))
    assert find_program("uv") is None
    monkeypatch.setenv("PATH", os.pathsep.join([".", str(tmp_path / "bin")]))
    assert find_program("uv") == str(tmp_path / "bin" / "uv")


def test_a_program_runs_in_the_cache_with_the_variables_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    done = run_isolated([sys.executable, "-c", "import os; print(os.getcwd(), os.environ['ASKED'])"], ASKED="yes")

    assert (done.returncode, done.stdout) == (0, f"{os.path.realpath(cache_directory())} yes\n")
