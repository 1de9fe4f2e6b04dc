from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch

from mindsummary_lightning.cli import doctor
from tests.cli.command import mindsummary


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.slow
def test_the_viewer_has_all_it_needs_here(capsys: pytest.CaptureFixture[str]) -> None:
    answer = mindsummary(capsys, "doctor")

    assert answer.code == 0
    assert "front end" in answer.out
    assert answer.out.endswith("`mindsummary view` has all it needs\n")


@pytest.mark.slow
def test_a_missing_package_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    version = metadata.version
    monkeypatch.setattr(
        metadata, "version", lambda name: version("missing" if name == "crc32c" else name)
    )

    answer, needs = (
        mindsummary(capsys, "doctor"),
        json.loads(mindsummary(capsys, "doctor", "--json").out)["needs"],
    )

    assert answer.code == 1
    assert {"name": "numpy", "state": np.__version__, "is_met": True} in needs
    assert "is missing: python -m pip install crc32c" in answer.out
    assert "cannot work: crc32c" in answer.out


def test_without_pip_and_front_end_the_viewer_needs_a_wheel(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "find_pip", lambda: None)

    answer = mindsummary(capsys, "doctor")

    assert answer.code == 1
    assert "--wheel FILE" in answer.out
    assert answer.out.endswith(
        "`mindsummary view` shows only the table of runs: front end is missing\n"
    )


@pytest.mark.slow
def test_a_device_is_proven_and_an_unknown_one_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = mindsummary(capsys, "doctor", "--device", "cpu")
    assert (answer.code, answer.err) == (0, "")
    assert [line.split()[0] for line in answer.out.splitlines()[:7]] == [
        "device", "weights", "values", "copies", "waits", "events", "landscape"
    ]  # fmt: skip
    assert answer.out.endswith("recording on cpu is as expected\n")

    # a word, and a device that is not here
    for name in ("abacus", "mps" if torch.cuda.is_available() else "cuda"):
        answer = mindsummary(capsys, "doctor", "--device", name)
        assert (answer.code, answer.out) == (2, "")
        assert f"PyTorch has no device '{name}' here" in answer.err
