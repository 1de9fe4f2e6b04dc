from __future__ import annotations

import numpy as np
import pytest

from mindsummary_lightning.export.lineage_text import lineage_values
from mindsummary_lightning.reading.series import RunLineage
from mindsummary_lightning.values import TrainInfo, UserDefinedInfo


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


def test_a_setting_does_not_hide_the_recorded_value_of_its_name() -> None:
    train = TrainInfo(optimizer="Adam", learning_rate=float(np.float32(0.001)), epoch=5, loss=0.25)
    custom = UserDefinedInfo({"loss": "MAE()", "optimizer": "adam", "learning_rate": 0.001, "hidden": 64})

    assert lineage_values(RunLineage(train=train, custom=custom)) == {
        "optimizer": "Adam",
        "learning_rate": 0.001,
        "epoch": 5,
        "loss": 0.25,
        "user_defined/loss": "MAE()",
        "user_defined/optimizer": "adam",
        "hidden": 64,
    }
