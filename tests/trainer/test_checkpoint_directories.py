"""Checkpoints that are directories, as DeepSpeed and FSDP save them, lie with their run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.strategies import SingleDeviceStrategy

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader
from tests.trainer.support import Net, loader, points, trainer


class Sharded(SingleDeviceStrategy):
    """Saves as DeepSpeed does: a directory, with the shards in a directory of their own.

    The packages that save so need a GPU.
    """

    def save_checkpoint(
        self, checkpoint: Any, filepath: Any, storage_options: Any | None = None
    ) -> None:
        shards = Path(filepath) / "checkpoint"
        shards.mkdir(parents=True, exist_ok=True)
        torch.save(checkpoint, shards / "mp_rank_00_model_states.pt")
        (shards / "zero_pp_rank_0_optim_states.pt").write_bytes(b"shard" * 100)

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> Any:
        shard = Path(checkpoint_path) / "checkpoint" / "mp_rank_00_model_states.pt"
        return torch.load(shard, weights_only=False)

    def remove_checkpoint(self, filepath: Any) -> None:
        shutil.rmtree(filepath)


def _running(loggers: list[Any], callbacks: list[Any], **options: Any) -> Any:
    settings = {"limit_train_batches": 3, "enable_checkpointing": True, **options}
    strategy = Sharded(torch.device("cpu"))
    return trainer(logger=loggers, callbacks=callbacks, strategy=strategy, **settings)


def _lineage_path(run: Path) -> Path:
    training: Any = SummaryReader(run).lineage().train
    return Path(json.loads(training.model_path)["ckpt"])


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize("kind", ["L", "C", "B"])
def test_directories_of_shards_lie_with_the_run_that_saved_them(tmp_path: Path, kind: str) -> None:
    ours, judge = MindInsightLogger(tmp_path / "runs", name=""), tmp_path / "judge"
    for number in range(2):
        loggers = [*([ours] if kind != "C" else []), TensorBoardLogger(judge, name="")]
        own = tmp_path / "runs" / f"version_{number}"
        collector = SummaryCollector(own if kind == "C" else None, collect_freq=1)
        callbacks = [ModelCheckpoint(), *([collector] if kind != "L" else [])]
        _running(loggers, callbacks).fit(Net(), loader())

    for number in range(2):
        run = tmp_path / "runs" / f"version_{number}"
        place = (judge / f"version_{number}" if kind == "C" else run) / "checkpoints"
        (saved,) = place.iterdir()
        assert saved.is_dir()
        assert saved.name == "epoch=0-step=3.ckpt"
        if kind != "C":
            assert [step for step, _ in points(run, "train/loss")] == [0, 1, 2]
        if kind != "L":
            assert _lineage_path(run) == saved
            training: Any = SummaryReader(run).lineage().train
            assert training.model_size == _size(saved)


def test_a_fit_resumes_from_a_directory_of_shards_in_its_run(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="")
    first = _running([logger], [ModelCheckpoint(), SummaryCollector(collect_freq=1)])
    first.fit(Net(), loader())
    path = first.checkpoint_callback.best_model_path
    second = _running([logger], [SummaryCollector(collect_freq=1)], max_epochs=2)
    second.fit(Net(), loader(), ckpt_path=path)

    assert [entry.name for entry in tmp_path.iterdir()] == ["version_0"]
    assert [step for step, _ in points(tmp_path / "version_0", "train/loss")] == [*range(6)]
    assert [step for step, _ in points(tmp_path / "version_0", "loss/auto")] == [*range(1, 7)]


def test_a_directory_of_shards_that_a_second_fit_writes_again_is_the_second_fits(
    tmp_path: Path,
) -> None:
    saving = ModelCheckpoint(tmp_path / "saved", "same", enable_version_counter=False)
    for number in range(2):
        collector = SummaryCollector(tmp_path / f"run{number}", collect_freq=1)
        # another number of steps: the callback saves no step twice
        limit = {"limit_train_batches": 3 - number}
        _running([], [collector, saving], **limit).fit(Net(), loader())

    assert _lineage_path(tmp_path / "run1") == tmp_path / "saved" / "same.ckpt"
