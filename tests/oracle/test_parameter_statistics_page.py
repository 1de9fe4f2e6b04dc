"""Statistics of 2,000 parameters as a real MindInsight shows them: four tags, their numbers and
their picture.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import SummaryCollector, SummaryReader
from mindsummary_lightning.values.statistics_columns import to_stored
from tests.oracle.mindinsight_server import MindInsight, publish, wait_until
from tests.trainer.support import trainer

TAG, PICTURE = "parameter_statistics/tensor", "parameter_statistics/gradient_rms/image"


class Chain(L.LightningModule):
    """1,000 layers that pass on what they get."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(2, 2) for _ in range(1000)])
        for layer in self.layers:
            nn.init.eye_(layer.weight)  # type: ignore[arg-type]

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss: Tensor = (self.layers(batch[0]) - 1).square().mean()
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=1e-6)


@pytest.fixture(scope="module")
def train_id(mindinsight: MindInsight, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("trained") / "deep"
    specified: Any = {"collect_metric": False}
    collector = SummaryCollector(folder, 1, specified, False, collect_parameter_statistics=True)
    torch.manual_seed(0)
    trainer(logger=False, callbacks=[collector]).fit(
        Chain(), DataLoader(TensorDataset(torch.randn(6, 2)), 2)
    )
    mindinsight.wait_cached(published := publish(folder, runs))
    # It shows large values while it still reads the rest of the file.
    wait_until(
        lambda: len(mindinsight.tensors(published, TAG)) == 3,
        lambda: f"three tables of {published}",
    )
    return published


def test_four_tags_hold_all_parameters(mindinsight: MindInsight, train_id: str) -> None:
    tags = {plugin: tags for plugin, tags in mindinsight.plugins(train_id).items() if tags}

    assert sum(map(len, tags.values())) == 4
    assert tags["tensor"] == [TAG]
    assert tags["image"] == [PICTURE]


def test_the_table_has_its_numbers(mindinsight: MindInsight, train_id: str, runs: Path) -> None:
    table = SummaryReader(runs / train_id).parameter_statistics()
    assert table is not None

    assert [(step, value["dims"]) for step, value in mindinsight.tensors(train_id, TAG)] == [
        (step, [2000, 10]) for step in (1, 2, 3)
    ]
    rows = mindinsight.tensor_slice(train_id, TAG, 2, "[0:100,0:3]")
    np.testing.assert_allclose(rows, to_stored(table.values[1])[:100, :3], atol=1e-5)


def test_the_picture_is_the_recorded_one(mindinsight: MindInsight, train_id: str) -> None:
    newest = mindinsight.images(train_id, PICTURE)[-1]
    picture = Image.open(io.BytesIO(mindinsight.image(train_id, PICTURE, newest["step"])))

    assert newest["step"] == 3
    assert picture.size == (newest["width"], newest["height"])
    assert picture.height < 1400
