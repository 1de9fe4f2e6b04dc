"""The same calls on our record, on torch's SummaryWriter and on tensorboardX's.

What a reader gets of each is compared.

Differences that are ours by choice stand in the table of ``docs/reference/tensorboard.md``,
which is read here.
"""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("tensorboard")
pytest.importorskip("tensorboardX")

import tensorboardX
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from mindsummary_lightning import MindInsightLogger, SummaryReader, SummaryRecord
from mindsummary_lightning.reading.run_tree import find_run_directories

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tensorboard.md"
Points = dict[str, list[tuple[int, Any]]]
Make = Callable[[Path], Any]


def _experiment(path: Path) -> SummaryRecord:
    return MindInsightLogger(path.parent, name="", version=path.name).experiment


WRITERS: dict[str, Make] = {
    "torch": lambda path: SummaryWriter(str(path)),
    "tensorboardX": lambda path: tensorboardX.SummaryWriter(str(path)),
    "ours": _experiment,
}


def _read(path: Path) -> Points:
    """Return steps and a comparable form of every value.

    These are numbers, sizes of images, and number and extremes of histograms.
    """
    if find_run_directories(str(path)):
        reader = SummaryReader(path)
        scalars = reader.all_scalars().items()
        found: Points = {
            tag: [*zip(s.steps.tolist(), s.values.tolist(), strict=True)] for tag, s in scalars
        }
        for tag in reader.tags()["histogram"]:
            found[tag] = [
                (each.step, (each.value.count, each.value.min)) for each in reader.histograms(tag)
            ]
        for tag in reader.tags()["image"]:
            found[tag] = [
                (each.step, (each.value.height, each.value.width)) for each in reader.images(tag)
            ]
        return found
    events = EventAccumulator(str(path), {"scalars": 0, "histograms": 0, "images": 0})
    events.Reload()
    tags = events.Tags()
    found = {
        tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in tags["scalars"]
    }
    for tag in tags["histograms"]:
        values = [(each.step, each.histogram_value) for each in events.Histograms(tag)]
        found[tag] = [(step, (int(value.num), value.min)) for step, value in values]
    for tag in tags["images"]:
        found[tag] = [(each.step, (each.height, each.width)) for each in events.Images(tag)]
    return found


def _differences() -> dict[str, str]:
    """Names of the deliberate differences and what is said of each, from the table of the page."""
    text = PAGE.read_text("utf-8")
    table = text[text.index("## What differs on purpose") :].split("\n\n")[1:3]
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", "\n".join(table), re.M)
    return {name: said for name, said in rows if name not in ("---", "what")}


# ---- the life of a writer


def _closed(writer: Any) -> Any:
    writer.close()
    return writer


def _left(writer: Any) -> Any:
    with writer as inner:
        inner.add_scalar("inside", 1.0, 0)
    return writer


def _flushed(writer: Any) -> Any:
    writer.flush()
    writer.flush()
    return writer


LIVES: dict[str, Callable[[Any], Any]] = {
    "close": _closed,
    "close twice": lambda writer: _closed(_closed(writer)),
    "with": _left,
    "with twice": lambda writer: _left(_left(writer)),
    "flush": _flushed,
    "close, then flush": lambda writer: _flushed(_closed(writer)),
}


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("name", WRITERS)
def test_a_value_after_each_event_in_a_writers_life_is_in_the_run(
    tmp_path: Path, name: str, life: str
) -> None:
    writer = WRITERS[name](tmp_path / "run")
    writer.add_scalar("a", 1.0, 0)
    LIVES[life](writer).add_scalar("a", 2.0, 1)
    writer.close()

    expected = [(0, 1.0), (1, 2.0)]
    # within a second it begins the same file again, and loses what was there
    if name == "tensorboardX":
        expected = expected[-len(_read(tmp_path / "run")["a"]) :]
    # of two files of a second TensorBoard reads either first
    assert sorted(_read(tmp_path / "run")["a"]) == expected


def _record_in_child(writer: Any) -> None:
    writer.add_scalar("child", 2.0, 1)


@pytest.mark.parametrize("copied", ["pickle", "deepcopy", "fork"])
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_copy_of_our_writer_records_into_the_same_run(
    tmp_path: Path, copied: str, is_closed: bool
) -> None:
    # the others cannot be copied, and their forks write into one file
    writer = _experiment(tmp_path / "run")
    writer.add_scalar("a", 1.0, 0)
    if is_closed:
        writer.close()
    if copied == "fork":
        writer.close()
        child = multiprocessing.get_context("fork").Process(target=_record_in_child, args=(writer,))
        child.start()
        child.join()
    else:
        _record_in_child(
            pickle.loads(pickle.dumps(writer)) if copied == "pickle" else copy.deepcopy(writer)
        )

    assert _read(tmp_path / "run") == {"a": [(0, 1.0)], "child": [(1, 2.0)]}


# ---- each add_* by kinds of values

NUMBERS: dict[str, Any] = {
    "int": 3,
    "bool": True,
    "float": 0.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "numpy": np.float64(0.25),
    "float16": np.float16(0.25),
    "array of one": np.array([0.25]),
    "tensor": torch.tensor(0.25),
    "tensor of one": torch.tensor([0.25]),
    "with gradient": torch.tensor(0.25, requires_grad=True),
    "bfloat16": torch.tensor(0.25, dtype=torch.bfloat16),
}


def _three(tmp_path: Path, call: Callable[[Any], None], without: str = "") -> dict[str, Points]:
    found = {}
    for name, make in WRITERS.items():
        if name == without:
            continue
        writer = make(tmp_path / name)
        call(writer)
        writer.close()
        found[name] = _read(tmp_path / name)
    return found


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_scalar_of_each_kind_is_what_the_others_record(tmp_path: Path, kind: str) -> None:
    refuses = "tensorboardX" if kind == "bfloat16" else ""
    found = _three(
        tmp_path, lambda writer: writer.add_scalar("a", NUMBERS[kind], 4), without=refuses
    )

    for points in found.values():
        np.testing.assert_equal(points, found["ours"])


HISTOGRAMS: dict[str, Any] = {
    "number": 1.5,
    "0-d tensor": torch.tensor(1.5),
    "0-d array": np.array(1.5),
    "list": [1, 2, 3],
    "array": np.linspace(-1, 1, 50),
    "int array": np.arange(10),
    "matrix": torch.arange(12.0).reshape(3, 4),
    "constant": torch.ones(5),
    "parameter": torch.nn.Parameter(torch.arange(6.0)),
    "bfloat16": torch.arange(6, dtype=torch.bfloat16),
    "bool": np.array([True, False, True]),
    "raw": None,
}


@pytest.mark.parametrize("kind", HISTOGRAMS)
def test_a_histogram_of_each_kind_has_the_others_count_and_smallest_value(
    tmp_path: Path, kind: str
) -> None:
    def call(writer: Any) -> None:
        try:
            if kind == "raw":
                writer.add_histogram_raw(
                    "h", 0.0, 9.0, 6, 30.0, 200.0, [1.0, 5.0, 10.0], [1, 2, 3], 2
                )
            else:
                writer.add_histogram("h", HISTOGRAMS[kind], 2)
        except (TypeError, NotImplementedError, AttributeError, ValueError):
            assert not isinstance(writer, SummaryRecord)

    found = _three(tmp_path, call)
    others = [found[name]["h"] for name in ("torch", "tensorboardX") if "h" in found[name]]
    assert len(found["ours"]["h"]) == 1
    assert all(found["ours"]["h"] == other for other in others)


@pytest.mark.parametrize("dataformats", ["HW", "WH", "CHW", "HWC", "CWH", "WHC", "HCW", "WCH"])
@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_of_each_layout_has_the_others_size(
    tmp_path: Path, dataformats: str, channels: int
) -> None:
    sizes = {"C": channels, "H": 4, "W": 6}
    image = np.random.default_rng(0).random([sizes[letter] for letter in dataformats])
    found = _three(
        tmp_path, lambda writer: writer.add_image("i", image, 1, dataformats=dataformats)
    )

    assert found["ours"] == found["torch"] == found["tensorboardX"] == {"i": [(1, (4, 6))]}


@pytest.mark.parametrize("dataformats", ["NCHW", "NHWC", "CHWN", "HWCN", "WHCN", "CNHW"])
def test_images_of_each_layout_are_one_picture(tmp_path: Path, dataformats: str) -> None:
    sizes = {"N": 2, "C": 3, "H": 4, "W": 6}
    images = np.random.default_rng(0).random([sizes[letter] for letter in dataformats])
    found = _three(
        tmp_path, lambda writer: writer.add_images("i", images, 1, dataformats=dataformats)
    )

    assert all(len(points["i"]) == 1 for points in found.values())


# ---- what differs on purpose


def test_values_without_a_step_are_counted_by_tag(tmp_path: Path) -> None:
    def call(writer: Any) -> None:
        for value in (1.0, 2.0):
            writer.add_scalar("a", value)
        writer.add_scalar("b", 3.0)

    found = _three(tmp_path, call)

    assert found["ours"] == {"a": [(0, 1.0), (1, 2.0)], "b": [(0, 3.0)]}
    assert [step for step, _ in found["torch"]["a"]] == [0, 0]
    assert "`global_step` left out" in _differences()


def test_add_scalars_stays_in_the_run(tmp_path: Path) -> None:
    for name, make in WRITERS.items():
        with make(tmp_path / name) as writer:
            writer.add_scalars("loss", {"train": 1.0, "val": 2.0}, 1)

    assert _read(tmp_path / "ours") == {"loss/train": [(1, 1.0)], "loss/val": [(1, 2.0)]}
    assert len([path for path in (tmp_path / "torch").rglob("*") if path.is_dir()]) == 2
    assert "`add_scalars`" in _differences()


def test_a_trial_that_replaces_another_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = _experiment(tmp_path / "run")
    for trial in range(36):
        writer.add_hparams({"lr": 0.1 * trial}, {"accuracy": 0.5})
    writer.add_hparams({"lr": 3.5}, {"accuracy": 0.75})

    assert [
        text
        for text in caplog.messages
        if "add_hparams replaces the values of an earlier trial" in text
    ]
    assert len(caplog.messages) == 1
    assert "`add_hparams` again" in _differences()


def test_log_dir_is_the_file_and_get_logdir_the_directory(tmp_path: Path) -> None:
    writer = _experiment(tmp_path / "run")

    assert (Path(writer.log_dir).parent, writer.get_logdir()) == (
        tmp_path / "run",
        str(tmp_path / "run"),
    )
    assert "`log_dir`" in _differences()


def test_a_prefix_stands_before_the_tag_with_a_slash(tmp_path: Path) -> None:
    found = {}
    for name, kind in (("ours", MindInsightLogger), ("Lightning's", TensorBoardLogger)):
        logger = kind(tmp_path, name="", version=name, prefix="student")
        logger.log_metrics({"loss": 1.0}, step=3)
        logger.finalize("success")
        found[name] = _read(tmp_path / name)

    assert found == {
        "ours": {"student/loss": [(3, 1.0)]},
        "Lightning's": {"student-loss": [(3, 1.0)]},
    }
    assert "`prefix`" in _differences()


REFUSED: dict[str, Callable[[Any], None]] = {
    "a text": lambda writer: writer.add_scalar("x", "0.5", 1),
    "complex": lambda writer: writer.add_scalar("x", 1 + 2j, 1),
    "two elements": lambda writer: writer.add_scalar("x", torch.zeros(2), 1),
    "no element": lambda writer: writer.add_scalar("x", torch.zeros(0), 1),
    "text in a histogram": lambda writer: writer.add_histogram("x", "abc", 1),
    "two channels": lambda writer: writer.add_image("x", np.zeros((2, 4, 6), np.uint8), 1),
    "five dimensions": lambda writer: writer.add_image("x", np.zeros((1, 1, 3, 4, 6)), 1),
    "images of three dimensions": lambda writer: writer.add_images("x", np.zeros((3, 4, 6)), 1),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_value_of_its_kind_is_skipped_with_one_warning_that_names_it(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    writer = _experiment(tmp_path / "run")
    for _ in range(2):
        REFUSED[kind](writer)
    writer.add_scalar("a", 1.0, 2)

    assert _read(tmp_path / "run") == {"a": [(2, 1.0)]}
    assert [text for text in caplog.messages if "'x'" in text] == caplog.messages[:1]
    assert "values that are no value of their kind" in _differences()


def test_an_empty_histogram_nan_and_a_step_that_is_given_twice(tmp_path: Path) -> None:
    def call(writer: Any) -> None:
        writer.add_histogram("nan", np.array([1.0, np.nan]), 1)
        writer.add_scalar("twice", 1.0, 1)
        writer.add_scalar("twice", 2.0, 1)

    found = _three(tmp_path, call)
    assert found["ours"] == {"nan": [(1, (2, 1.0))], "twice": [(1, 2.0)]}
    assert found["torch"]["twice"] == [(1, 1.0), (1, 2.0)]
    assert np.isnan(found["torch"]["nan"][0][1][1])
    _experiment(tmp_path / "empty").add_histogram("h", np.array([]), 1)
    assert _read(tmp_path / "empty") == {"h": [(1, (0, None))]}
    assert "two values of a tag at one step" in _differences()


def test_no_file_and_no_directory_is_made_before_a_value(tmp_path: Path) -> None:
    found = {}
    for name, make in WRITERS.items():
        make(tmp_path / name).close()
        found[name] = (tmp_path / name).exists()
    logger = MindInsightLogger(tmp_path, name="", version="hparams")
    logger.log_hyperparams({"lr": 0.1})
    logger.log_metrics({"a": 1.0}, step=0)

    assert found == {"torch": True, "tensorboardX": True, "ours": False}
    assert not [path.name for path in Path(logger.log_dir).iterdir() if path.name.endswith(".yaml")]
    assert {"the directory", "`hparams.yaml`"} <= _differences().keys()


def test_the_page_names_no_difference_that_is_not_tested() -> None:
    assert len(_differences()) == 9
