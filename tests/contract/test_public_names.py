"""The public names: exactly those the documentation promises, and reading a run never imports
torch.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import mindsummary_lightning

_PROMISED = {
    "Comparison",
    "EvalLineage",
    "HistogramSummary",
    "ImageSummary",
    "MindInsightLogger",
    "PortCheck",
    "PortReport",
    "ScalarSummary",
    "StepRecorder",
    "SummaryCollector",
    "SummaryLandscape",
    "SummaryReader",
    "SummaryRecord",
    "TensorSummary",
    "TrainLineage",
    "check_port",
    "compare_runs",
    "filter_summary_lineage",
    "find_runs",
    "get_summary_lineage",
    "histogram_summary",
    "image_summary",
    "lineage_to_pandas",
    "plot_landscapes",
    "read_scalars",
    "runs_to_pandas",
    "scalar_summary",
    "tensor_summary",
    "transfer_weights",
}


def _modules_after(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after running the code."""
    ending = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{ending}"], check=True, capture_output=True, text=True
    )
    return set(done.stdout.split())


def test_the_public_names_are_those_promised() -> None:
    assert set(mindsummary_lightning.__all__) == _PROMISED
    assert set(dir(mindsummary_lightning)) >= _PROMISED


def test_every_public_name_resolves_to_what_it_names() -> None:
    for name in mindsummary_lightning.__all__:
        assert getattr(mindsummary_lightning, name).__name__ == name


def test_a_name_that_does_not_exist_is_an_attribute_error_with_the_closest() -> None:
    with pytest.raises(AttributeError, match="closest: 'SummaryRecord'"):
        mindsummary_lightning.SummaryRecorder  # type: ignore[attr-defined]


@pytest.mark.slow
def test_modules_that_users_name_are_there_without_an_import_and_listed() -> None:
    modules = {"errors", "types", "values", "viewer"}
    seen = (
        "mindsummary_lightning.errors.DamagedFileError, mindsummary_lightning.viewer.show.__name__"
    )
    code = f"import mindsummary_lightning; print({seen}, *dir(mindsummary_lightning))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.startswith("<class 'mindsummary_lightning.errors.DamagedFileError'> show ")
    assert set(done.stdout.split()) >= modules | _PROMISED
    assert "importlib" not in done.stdout
    assert set(dir(mindsummary_lightning.viewer)) == {"Shown", "show"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("absent", "package"),
    [
        ("torch", "torch"),
        ("lightning", "lightning"),
        pytest.param("PIL", "Pillow", marks=pytest.mark.long),
    ],
)
def test_a_name_whose_package_is_missing_says_what_to_install(
    absent: str, package: str, tmp_path: Path
) -> None:
    code = f"""
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name.partition(".")[0] == {absent!r}:
            raise ModuleNotFoundError(f"No module named {absent!r}", name={absent!r})
sys.meta_path.insert(0, Absent())
from mindsummary_lightning.cli import main
sys.exit(main(["landscape", {str(tmp_path)!r}, "--module", "nowhere:f"]))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    needs = (
        f"SummaryLandscape needs {package}, which is not installed; install it with: pip "
        "install mindsummary-lightning"
    )
    assert (done.returncode, done.stderr) == (1, f"mindsummary: {needs}\n")


@pytest.mark.slow
def test_importing_the_package_imports_nothing_heavy() -> None:
    assert not _modules_after("import mindsummary_lightning") & {
        "torch",
        "lightning",
        "numpy",
        "google",
    }


@pytest.mark.slow
def test_reading_recording_and_querying_need_no_torch() -> None:
    names = (
        "SummaryReader, SummaryRecord, compare_runs, get_summary_lineage, filter_summary_lineage"
    )

    assert not _modules_after(f"from mindsummary_lightning import {names}") & {
        "torch",
        "lightning",
        "pytorch_lightning",
    }


def test_the_package_is_the_command_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mindsummary", "--version"])

    with pytest.raises(SystemExit) as ended:
        runpy.run_module("mindsummary_lightning", run_name="__main__")
    assert ended.value.code == 0
    assert mindsummary_lightning.__version__ in capsys.readouterr().out
