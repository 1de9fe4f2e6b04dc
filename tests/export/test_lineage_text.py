from __future__ import annotations

import pytest

from mindsummary_lightning.export.lineage_text import lineage_values
from mindsummary_lightning.reading.results import RunLineage
from mindsummary_lightning.values import TrainInfo


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"ckpt": "/data/\\"a\\"/last.ckpt"}', {"model_path": '/data/"a"/last.ckpt'}),
        ('{"ckpt": null}', {}),
        ("last.ckpt", {"model_path": "last.ckpt"}),
        ('["last.ckpt"]', {"model_path": '["last.ckpt"]'}),
        (None, {}),
    ],
)
def test_a_checkpoint_is_its_path_without_the_json_around_it(text: str | None, expected: dict[str, str]) -> None:
    assert lineage_values(RunLineage(train=TrainInfo(epoch=1, model_path=text))) == {"epoch": 1, **expected}
