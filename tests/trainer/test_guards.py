"""More than MindInsight shows: said once with the number, and the loss is not what is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

from mindsummary_lightning import SummaryCollector, SummaryReader, SummaryRecord, tensor_summary
from mindsummary_lightning.values import Graph
from tests.trainer.support import Net, loader, points, trainer

_MAX_TAGS, _MAX_TENSOR_TAGS = 300, 6


def _tags_mindinsight_keeps(run: Path) -> list[str]:
    """State ``EventsData.add_tensor_event`` independently.

    A new tag too many drops the first one seen.
    """
    kept: list[tuple[str, str]] = []
    dropped: set[tuple[str, str]] = set()
    for event in SummaryReader(run).events():
        found = (
            [("graph", "normal"), ("graph", "optimized")] if isinstance(event.what, Graph) else []
        )
        if isinstance(event.what, tuple):
            found = [(tag, type(value).__name__) for tag, value in event.what]
        for key in found:
            if key in kept or (key in dropped and len(kept) >= _MAX_TAGS):
                continue
            if len(kept) >= _MAX_TAGS:
                dropped.add(kept.pop(0))
            kept.append(key)
    return [tag for tag, _ in kept]


class Wide(Net):
    """Twice as many parameters as MindInsight has room for tags."""

    def __init__(self) -> None:
        super().__init__()
        self.many = nn.ModuleList(nn.Linear(4, 4) for _ in range(300))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + sum(layer(x) for layer in self.many))


@pytest.mark.slow
def test_the_loss_survives_more_tags_than_mindinsight_keeps(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    specified: Any = {"histogram_regular": ".*", "collect_landscape": None, "collect_graph": False}
    collector = SummaryCollector(
        tmp_path, 1, collect_specified_data=specified, collect_gradients="first"
    )
    trainer(logger=False, callbacks=[collector], limit_train_batches=3).fit(Wide(), loader())

    kept = _tags_mindinsight_keeps(tmp_path)
    assert len(kept) == _MAX_TAGS
    assert {"loss/auto", "gradient_norm"} <= set(kept)
    (said,) = [
        record.message for record in caplog.records if "MindInsight shows the 300" in record.message
    ]
    assert "608 tags" in said
    assert "histogram_regular" in said
    assert len(points(tmp_path, "loss/auto")) == 3


@pytest.mark.slow
def test_the_graph_survives_more_tags_than_mindinsight_keeps(tmp_path: Path) -> None:
    specified: Any = {"histogram_regular": ".*", "collect_landscape": None}
    trainer(
        logger=False, callbacks=[SummaryCollector(tmp_path, 1, specified)], limit_train_batches=3
    ).fit(Wide(), loader())

    kept = _tags_mindinsight_keeps(tmp_path)

    assert len(kept) == _MAX_TAGS
    assert kept.count("graph") == 2
    assert "loss/auto" in kept


def test_too_many_tensor_tags_are_said_once_with_the_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    net = Net(probe=lambda module, x: [tensor_summary(f"t{index}", x) for index in range(8)])
    collector = SummaryCollector(tmp_path, 1)
    trainer(logger=False, callbacks=[collector]).fit(net, loader())

    (said,) = [record.message for record in caplog.records if "tensor tags" in record.message]
    assert f"8 tensor tags so far. MindInsight shows the {_MAX_TENSOR_TAGS}" in said
    assert len(SummaryReader(tmp_path).tags()["tensor"]) == 8


def test_tags_within_the_limits_are_not_mentioned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = SummaryRecord(tmp_path)
    for step in range(3):
        for index in range(294):
            record.add_value("scalar", f"s{index}", 1.0)
        for index in range(6):
            record.add_value("tensor", f"t{index}", [1.0, float(step)])
        record.record(step)

    assert not caplog.records
