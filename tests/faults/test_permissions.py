"""Row 35: everything that a run writes, and everything that is made of it, follows ``file_mode``
under any umask.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import TrainInfo
from tests.cli.command import mindsummary

pytestmark = pytest.mark.faults


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o600, 0o640])
@pytest.mark.parametrize("umask", [0, 0o077])
def test_files_of_a_run_and_of_its_exports_have_the_mode_of_the_run(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    figure: Callable[[int, str], None],
    mode: int,
    umask: int,
) -> None:
    pytest.importorskip("torch")
    from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointWriter
    from mindsummary_lightning.values.landscape_settings import LandscapeSettings
    from tests.landscape import nets

    run = tmp_path / "run"
    previous = os.umask(umask)
    try:
        with SummaryRecord(run, file_mode=mode, export_options={"tensor_format": "npy"}) as record:
            record.add_value("scalar", "loss", 1.0)
            for tag in ("t", "layer/" * 60):
                record.add_value("tensor", tag, np.ones(3, np.float32))
            record.record(1)
            recorder_of(record).write_lineage(TrainInfo(epoch=1))
            settings = LandscapeSettings(landscape_size=5, num_samples=96, intervals=((1, 2, 3),))
            checkpoints = LandscapeCheckpointWriter(
                run, "Net", settings, file_mode=recorder_of(record).options.mode
            )
            assert nets.save(checkpoints, 1, nets.Mlp().state_dict())
        with next(path for path in run.iterdir() if path.name.endswith("_MS")).open("ab") as file:
            file.write(b"torn")
        with SummaryRecord(run, file_mode=mode) as record:  # cuts the tail, and keeps it
            recorder_of(record).write_values(2, [("loss", 0.5)])
        for form in ("csv", "npy", "parquet", "tensorboard"):
            mindsummary(capsys, "export", run, "--to", form, "--out", tmp_path / form)
        mindsummary(capsys, "report", run, "-o", tmp_path / "report.html")
    finally:
        os.umask(previous)

    modes = {
        path: stat.S_IMODE(path.stat().st_mode)
        for path in tmp_path.rglob("*")
        if path.is_file() and ".damaged" not in path.parts
    }
    assert set(modes.values()) == {mode}, modes
    assert stat.S_IMODE(run.stat().st_mode) == 0o777 & ~umask
    (kept,) = (run / ".damaged").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert {path.suffix for path in modes} >= {
        ".npy",
        ".txt",
        ".ckpt",
        ".json",
        ".csv",
        ".mindsummary",
        ".html",
    }
    figure(
        35,
        (
            f"file_mode {mode:o}, umask {umask:03o}: {len(modes)} files of a run and its exports "
            "have that mode"
        ),
    )
