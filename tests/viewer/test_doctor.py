from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mindsummary_lightning.viewer import doctor
from mindsummary_lightning.viewer.doctor import PAGES, examine, installed_versions
from tests.cli.command import mindsummary


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


_GOOD = {
    "python": "3.11.7",
    "mindinsight": "2.3.1",
    "numpy": "1.26.4",
    "marshmallow": "3.26.2",
    "pandas": "1.5.3",
    "protobuf": "3.20.1",
}


def _broken(**versions: str) -> dict[str, list[str]]:
    return {page: problems for page, problems in examine({**_GOOD, **versions}).items() if problems}


def test_the_versions_that_work_break_nothing() -> None:
    assert _broken() == {}


@pytest.mark.parametrize(
    ("package", "version", "pages"),
    [
        ("numpy", "2.0.0rc1", {"Tensor", "Loss landscape", "Scalar", "Image", "Parameter distribution"}),
        ("marshmallow", "4.0.0", {"Dataset graph", "Model traceback", "Data traceback"}),
        ("pandas", "2.2.3", {"Parameter importance"}),
        ("protobuf", "3.21.12", set(PAGES)),
        ("protobuf", "4.25.3", set(PAGES)),
        ("python", "3.13.0", set(PAGES)),
    ],
)
def test_each_version_that_is_too_new_breaks_its_pages(package: str, version: str, pages: set[str]) -> None:
    found = _broken(**{package: version})

    assert set(found) == pages
    assert all(problem.startswith(f"{package} {version}: ") for problems in found.values() for problem in problems)


def test_without_mindinsight_no_page_works() -> None:
    assert examine({"python": "3.11.7"}) == {page: ["MindInsight is not installed"] for page in PAGES}


def test_an_environment_is_asked_for_its_versions() -> None:
    found = installed_versions(sys.executable)

    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "mindinsight" not in found


@pytest.mark.slow
def test_code_in_the_working_directory_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('code from the working directory')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    assert "python" in installed_versions(sys.executable)


def test_the_command_gives_1_if_a_page_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    answer = mindsummary(capsys, "doctor", sys.executable)

    assert answer.code == 1
    assert "11 of 11 pages are broken" in answer.out
    assert "mindsummary view" in answer.out


@pytest.mark.slow
def test_the_viewer_has_all_it_needs_here(capsys: pytest.CaptureFixture[str]) -> None:
    answer = mindsummary(capsys, "doctor")

    assert answer.code == 0
    assert "front end" in answer.out
    assert answer.out.endswith("`mindsummary view` has all it needs\n")


@pytest.mark.slow
def test_a_missing_package_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_VIEWER_PACKAGES", ("aiohttp", "no-such-package"))

    answer = mindsummary(capsys, "doctor")

    assert answer.code == 1
    assert "no-such-package  is missing: python -m pip install no-such-package" in answer.out
    assert "cannot work: no-such-package" in answer.out


def test_without_pip_and_front_end_the_viewer_needs_a_wheel(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "find_pip", lambda: None)

    answer = mindsummary(capsys, "doctor")

    assert answer.code == 1
    assert "--wheel FILE" in answer.out
