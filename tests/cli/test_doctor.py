from __future__ import annotations

import json
import platform
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch

from mindsummary_lightning.cli import doctor
from mindsummary_lightning.trainer import device_proof
from mindsummary_lightning.viewer.frontend import WHEEL_NAME
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


def test_a_missing_package_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "find_pip", lambda: ["python", "-m", "pip"])
    version = metadata.version
    monkeypatch.setattr(
        metadata, "version", lambda name: version("missing" if name == "crc32c" else name)
    )

    answer, needs = (
        mindsummary(capsys, "doctor"),
        json.loads(mindsummary(capsys, "doctor", "--json").out)["needs"],
    )

    assert answer.code == 1
    assert [(need["name"], need["state"], need["is_met"]) for need in needs] == [
        ("Python", platform.python_version(), True),
        ("aiohttp", version("aiohttp"), True),
        ("numpy", np.__version__, True),
        ("protobuf", version("protobuf"), True),
        ("crc32c", "is missing: python -m pip install crc32c", False),
        ("cache", str(tmp_path / "cache" / "mindsummary-lightning"), True),
        ("front end", "is fetched on the first start, by python -m pip", True),
    ]
    assert "crc32c     is missing: python -m pip install crc32c" in answer.out.splitlines()
    assert answer.out.endswith("\n\n`mindsummary view` cannot work: crc32c\n")


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


def test_without_a_cache_the_front_end_is_not_looked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "mindsummary-lightning").touch()

    answer = mindsummary(capsys, "doctor", "--json")

    cache = json.loads(answer.out)["needs"][-1]
    assert (answer.code, cache["name"], cache["is_met"]) == (1, "cache", False)
    assert cache["state"].startswith("cannot be used: ")


def test_a_front_end_in_the_cache_is_not_fetched(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "find_pip", lambda: None)
    cache = tmp_path / "cache" / "mindsummary-lightning"
    cache.mkdir(parents=True, mode=0o700)
    (cache / WHEEL_NAME).touch()

    answer = mindsummary(capsys, "doctor")

    assert answer.code == 0
    assert "front end  is in the cache" in answer.out.splitlines()
    assert answer.out.endswith("\n\n`mindsummary view` has all it needs\n")


@pytest.mark.parametrize(
    ("is_met", "code", "end"),
    [
        ((True, True, True), 0, "recording on abc is as expected"),
        ((False, True, False), 1, "recording on abc is not as expected in weights, copies"),
    ],
)
def test_what_a_device_does_otherwise_is_named(
    is_met: tuple[bool, ...],
    code: int,
    end: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proofs = [
        device_proof.Proof(name, f"state of {name}", met)
        for name, met in zip(("weights", "values", "copies"), is_met, strict=True)
    ]
    monkeypatch.setattr(device_proof, "prove_device", lambda device: proofs)

    answer = mindsummary(capsys, "doctor", "--device", "abc")

    assert answer.code == code
    assert answer.out.splitlines() == [
        "weights  state of weights",
        "values   state of values",
        "copies   state of copies",
        "",
        end,
    ]


@pytest.mark.slow
def test_a_device_is_proven(capsys: pytest.CaptureFixture[str]) -> None:
    answer = mindsummary(capsys, "doctor", "--device", "cpu")
    assert (answer.code, answer.err) == (0, "")
    assert [line.split()[0] for line in answer.out.splitlines()[:7]] == [
        "device", "weights", "values", "copies", "waits", "events", "landscape"
    ]  # fmt: skip
    assert answer.out.endswith("recording on cpu is as expected\n")


def test_an_unknown_device_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    # a word, and a device that is not here
    for name in ("abacus", "mps" if torch.cuda.is_available() else "cuda"):
        answer = mindsummary(capsys, "doctor", "--device", name)
        assert (answer.code, answer.out) == (2, "")
        assert f"PyTorch has no device '{name}' here" in answer.err
