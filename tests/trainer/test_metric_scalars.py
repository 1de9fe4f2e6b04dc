"""Metrics become scalars alike, whether their names are known already or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mindsummary_lightning import MindInsightLogger
from tests.trainer.support import points


@pytest.mark.parametrize(
    "value",
    [2.5, -3, True, 2**53 + 1, -(2**53) - 1, 10**400, np.float32(0.5), torch.tensor(4), "text"],
    ids=repr,
)
def test_a_value_is_the_same_under_a_name_that_is_known(tmp_path: Path, value: Any) -> None:
    known, new = MindInsightLogger(tmp_path, "known"), MindInsightLogger(tmp_path, "new")
    known.log_metrics({"a": 1.0}, step=3)
    new.log_metrics({"other": 1.0}, step=3)
    for logger in (known, new):
        logger.log_metrics({"a": value}, step=5)
        logger.log_metrics({"a": 0.25}, step=7)

    recorded = points(known.log_dir, "a")
    assert recorded == [(3, 1.0), *points(new.log_dir, "a")]
    assert [recorded[0], recorded[-1]] == [(3, 1.0), (7, 0.25)]


def test_each_metric_that_is_no_number_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = MindInsightLogger(tmp_path, prefix="student")
    for step in range(2):
        logger.log_metrics({"loss": 0.5, "first": "text", "outer": {"second": None}}, step)

    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(lines) == 2
    assert "student/first" in lines[0]
    assert "student/outer/second" in lines[1]
    assert points(logger.log_dir, "student/loss") == [(0, 0.5), (1, 0.5)]


def test_nested_metrics_keep_their_tags_beside_plain_ones_of_the_same_name(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path)
    logger.log_metrics({"a": {"b": 1.0, "c": {"d": 2.0}}, "a/b": 3.0}, step=1)
    logger.log_metrics({"a": 4.0, "c": 5.0}, step=2)

    assert points(logger.log_dir, "a/c/d") == [(1, 2.0)]
    assert points(logger.log_dir, "a") == [(2, 4.0)]
    assert points(logger.log_dir, "c") == [(2, 5.0)]
