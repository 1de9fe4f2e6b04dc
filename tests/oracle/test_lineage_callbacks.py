"""A run recorded by ``TrainLineage`` and ``EvalLineage`` alone fills both lineage pages of a real
MindInsight.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.oracle.browser import Browser
from tests.oracle.mindinsight_server import MindInsight, publish


@pytest.fixture(scope="module")
def row(
    mindinsight: MindInsight, runs: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The lineage of the run, as the server answers it."""
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint
    from torch.utils.data import DataLoader, TensorDataset

    from mindsummary_lightning import EvalLineage, TrainLineage
    from tests.oracle.small_fit import Digits
    from tests.trainer.support import trainer

    scratch = tmp_path_factory.mktemp("lineage_alone")
    data = TensorDataset(torch.rand(48, 1, 8, 8), torch.randint(0, 10, (48,)))
    data.root = str(scratch / "digits")  # type: ignore[attr-defined]  # as torchvision's data sets have one
    run = scratch / "lineage_alone"
    callbacks = [TrainLineage(run), EvalLineage(run), ModelCheckpoint(scratch / "checkpoints")]
    trainer(max_epochs=2, logger=False, callbacks=callbacks, enable_checkpointing=True).fit(
        Digits(0.05), DataLoader(data, 16, shuffle=True), DataLoader(data, 12)
    )
    train_id = publish(run, runs)
    mindinsight.wait_lineage(train_id)
    found = mindinsight.lineages()[train_id]
    found["checkpoint_bytes"] = next(scratch.glob("checkpoints/*.ckpt")).stat().st_size
    found["train_id"] = train_id
    return found


def test_every_field_is_answered(row: dict[str, Any]) -> None:
    expected = {
        "network": "Digits",
        "optimizer": "SGD",
        "loss_function": "CrossEntropyLoss",
        "learning_rate": 0.05,
        "epoch": 2,
        "batch_size": 16,
        "device_num": 1,
        "train_dataset_count": 48,
        "test_dataset_count": 48,
        "model_size": row["checkpoint_bytes"],
    }
    assert {field: row[field] for field in expected} == expected
    assert row["train_dataset_path"].endswith("digits")
    assert row["test_dataset_path"].endswith("digits")
    assert row["loss"] > 0
    assert set(row["metric"]) == {"val/loss", "val/accuracy"}
    assert "learning_rate" not in row["user_defined"]  # the hyper-parameter is the optimizer's rate


def test_both_pages_show_them(browser: Browser, row: dict[str, Any]) -> None:
    browser.open("model lineage")
    model_page = browser.text()
    browser.open("data lineage")
    data_page = browser.text()

    assert [
        text for text in ("Digits", "SGD", "CrossEntropy", "val/accuracy") if text not in model_page
    ] == []
    assert row["train_id"] in model_page
    assert [
        text
        for text in (row["train_id"], "batch_size", "16", "TensorDataset")
        if text not in data_page
    ] == []
    assert browser.errors() == []
