"""A MindSpore run and ours, of the same network on the same data, show the same in one
dashboard.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mindsummary_lightning import SummaryReader
from mindsummary_lightning.fileformat.summary_codec import decode_event
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.values import Histogram, Image, Tensor
from tests.golden.collector.train_with_lightning import train

GOLDEN = json.loads(
    Path(__file__).with_name("mindspore_collector.json").read_text(encoding="utf-8")
)
((_, LINEAGE),) = GOLDEN.pop("lineage")


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("parity") / "run"
    train(str(run_dir))
    return run_dir


@pytest.fixture(scope="module")
def ours(run_dir: Path) -> dict[str, dict[int, object]]:
    found: dict[str, dict[int, object]] = {}
    for step, tag, value in _values(run_dir):
        kind = {Histogram: "histogram", Image: "image", Tensor: "tensor", float: "scalar_value"}[
            type(value)
        ]
        assert step not in found.setdefault(f"{tag} {kind}", {}), (
            f"{tag} is recorded twice at step {step}"
        )
        found[f"{tag} {kind}"][step] = value
    return found


def _values(run_dir: Path) -> Iterator[tuple[int, str, object]]:
    (path,) = run_dir.glob("*_MS")
    for event in map(decode_event, RecordScanner(str(path))):
        for tag, value in event.what if isinstance(event.what, tuple) else ():
            yield event.step, tag, value


@pytest.mark.slow
def test_tags_are_those_of_mindspore(ours: dict[str, dict[int, object]]) -> None:
    assert set(ours) == set(GOLDEN)


@pytest.mark.parametrize("tag", GOLDEN)
def test_steps_are_those_of_mindspore_but_each_once(
    ours: dict[str, dict[int, object]], tag: str
) -> None:
    assert sorted(ours[tag]) == sorted({step for step, _ in GOLDEN[tag]})


def test_losses_agree(ours: dict[str, dict[int, object]]) -> None:
    tag = "loss/auto scalar_value"
    for step, loss in GOLDEN[tag]:
        assert ours[tag][step] == pytest.approx(loss, abs=1e-4)


@pytest.mark.parametrize("tag", [tag for tag in GOLDEN if tag.endswith("histogram")])
def test_histograms_agree_at_the_first_step(ours: dict[str, dict[int, object]], tag: str) -> None:
    step, (smallest, largest, counts) = GOLDEN[tag][0]
    histogram = ours[tag][step]
    assert isinstance(histogram, Histogram)
    assert (histogram.min, histogram.max) == pytest.approx((smallest, largest), rel=1e-5)
    np.testing.assert_array_equal(histogram.counts, counts)


def test_pictures_have_the_same_size(ours: dict[str, dict[int, object]]) -> None:
    for step, (height, width) in GOLDEN["input_data/auto image"]:
        image = ours["input_data/auto image"][step]
        assert isinstance(image, Image)
        assert (image.height, image.width) == (height, width)


def test_tensors_have_the_same_shape(ours: dict[str, dict[int, object]]) -> None:
    for step, shape in GOLDEN["scores tensor"]:
        tensor = ours["scores tensor"][step]
        assert isinstance(tensor, Tensor)
        assert list(tensor.data.shape) == shape


def test_the_lineage_has_the_same_rate_and_sizes(run_dir: Path) -> None:
    train = SummaryReader(run_dir).lineage().train
    assert [train.learning_rate, train.batch_size, train.train_dataset_size] == pytest.approx(
        LINEAGE
    )
