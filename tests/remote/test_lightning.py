"""The recipe of a Trainer: a local run, checkpoints that Lightning writes to the store, their
address in lineage.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lightning.pytorch.callbacks import ModelCheckpoint

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader
from mindsummary_lightning.remote.run_copies import RunCopies, Store
from tests.trainer.support import Net, loader, trainer


@pytest.mark.slow
def test_lineage_of_the_copy_names_the_checkpoint_in_the_store(tmp_path: Path) -> None:
    checkpoints = ModelCheckpoint(dirpath=f"memory:/{tmp_path}/checkpoints")
    logger = MindInsightLogger(tmp_path / "runs")
    trainer(
        logger=logger, callbacks=[SummaryCollector(), checkpoints], enable_checkpointing=True
    ).fit(Net(), loader(4))

    RunCopies(Store(str(tmp_path / "runs")), Store(f"memory:/{tmp_path}/runs")).send()
    RunCopies(Store(f"memory:/{tmp_path}/runs"), Store(str(tmp_path / "back"))).send()

    (run,) = {path.parent for path in (tmp_path / "back").rglob("*_lineage")}
    train = SummaryReader(run).lineage().train
    assert train is not None
    assert json.loads(train.model_path or "") == {"ckpt": checkpoints.best_model_path}
    assert checkpoints.best_model_path.startswith("memory://")
