"""What goes through a run opens each of its files once to read it, and once for all values that it
then asks for.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning.cli import main
from mindsummary_lightning.values import Image, Tensor
from tests.reading.runs import histogram, values_at, write_summary
from tests.support import skip_without_packages

_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    "3a7e9b550000000a49444154789c6360000000020001e221bc330000000049454e44ae426082"
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two files of two tags of each kind at twenty steps."""
    for second, steps in ((100, range(20)), (200, range(20, 40))):
        of_step = {
            f"{name}{number}": value
            for number in range(2)
            for name, value in (
                *(("s", 1.0), ("h", histogram(1, 2))),
                *(("i", Image(1, 1, _PNG)), ("t", Tensor(np.zeros(3)))),
            )
        }
        write_summary(tmp_path / "run", [values_at(step, of_step) for step in steps], second)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (["list", "{run}"], 1),
        (["verify", "{run}"], 1),
        (["show", "{run}"], 2),
        (["export", "{run}", "--to", "csv", "--out", "{out}"], 2),
        (["export", "{run}", "--to", "npy", "--out", "{out}"], 2),
        (["export", "{run}", "--to", "parquet", "--out", "{out}"], 2),
        pytest.param(
            ["export", "{run}", "--to", "tensorboard", "--out", "{out}"], 4, marks=pytest.mark.slow
        ),
        pytest.param(["report", "{run}", "--out", "{out}.html"], 2, marks=pytest.mark.slow),
    ],
    ids=lambda found: (
        " ".join(word for word in found if word.isalpha()) if isinstance(found, list) else ""
    ),
)
def test_a_file_is_opened_once_a_pass(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], most: int
) -> None:
    skip_without_packages(*words)
    opened: list[str] = []
    open_it = os.open

    def counting(path: str, *found: int, **named: int) -> int:
        opened.append(str(path))
        return open_it(path, *found, **named)

    monkeypatch.setattr(os, "open", counting)

    assert main([word.format(run=run, out=tmp_path / "out") for word in words]) == 0

    files = [os.path.basename(path) for path in opened]
    assert {name: 1 <= files.count(name) <= most for name in os.listdir(run)} == dict.fromkeys(
        os.listdir(run), True
    )
