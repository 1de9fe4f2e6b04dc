from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning.reading.summary_reader import SummaryReader
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run


def test_what_was_typed_reaches_the_function_that_makes_landscapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    write_demo_run(tmp_path)
    (recorded,) = (
        value
        for event in SummaryReader(tmp_path).events()
        if isinstance(event.what, tuple)
        for tag, value in event.what
        if tag.startswith("landscape")
    )
    asked: dict[str, Any] = {}

    def make(run_dir: str, reference: str, **options: Any) -> dict[str, Any]:
        asked.update(options, run_dir=run_dir, reference=reference)
        return {"landscape_[1, 2, 3]": recorded}

    monkeypatch.setattr("mindsummary_lightning.landscape.from_reference.landscapes_from_reference", make)

    words = ["landscape", tmp_path, "--module", "net:make", "--device-ids", 0, 1, "--plot", "x.png"]
    answer = mindsummary(capsys, *words)

    assert answer.code == 0
    assert answer.out.splitlines()[1].split() == ["landscape_[1,", "2,", "3]", "16", "x", "12", "0.117537", "3.1402"]
    assert asked == {
        "run_dir": str(tmp_path),
        "reference": "net:make",
        "device_ids": [0, 1],
        "output": None,
        "plot": "x.png",
    }


def test_a_function_that_is_not_there_is_a_wrong_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = mindsummary(capsys, "landscape", tmp_path, "--module", "no_such_module:make")

    assert (answer.code, "cannot be imported" in answer.err) == (2, True)
