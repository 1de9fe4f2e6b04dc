"""Values that cannot be recorded are converted or left out.

Wrong arguments raise at once.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader, TrainLineage
from mindsummary_lightning.errors import RecordTooLargeError
from tests.trainer.support import Net, files, loader, points, trainer


class Hostile:
    """Raises whatever is done to it."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __float__(self) -> float:
        raise RuntimeError("no float")


class Quitting:
    def __float__(self) -> float:
        raise SystemExit("no float")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise SystemExit("no float")


class Interrupted:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt


@dataclass
class Options:
    rate: float = 0.1
    inner: dict[str, Any] = field(default_factory=lambda: {"depth": 2})


def _of_omegaconf() -> list[Any]:
    """A configuration with a missing value, where the package is installed."""
    if find_spec("omegaconf") is None:
        return []
    from omegaconf import OmegaConf

    return [OmegaConf.create({"a": {"b": 1}, "missing": "???"})]


_STRANGE = [
    None,
    "text",
    "",
    b"bytes",
    [],
    [1.0, 2.0],
    object(),
    Hostile(),
    1e400,
    -(10**400),
    2**63,
    True,
    1 + 2j,
    np.zeros(0),
    np.zeros(3),
    np.array("x"),
    np.datetime64("2020-01-01"),
    torch.zeros(0),
    torch.zeros(2, 2),
    torch.zeros(1, device="meta"),
    torch.tensor(1.0, requires_grad=True),
    torch.tensor(1.0, dtype=torch.bfloat16),
    torch.tensor(1 + 1j),
    torch.zeros(1).to_sparse(),
    torch.tensor(True),
    nn.Linear(2, 2),
    nn.Linear,
    len,
    lambda: 1,
    functools.partial(print, 1),
    Path("a/b"),
    Options(),
    *_of_omegaconf(),
    {"inner": {"deeper": 1.0, "bad": None}},
    {"a", "b"},
]


def _values() -> st.SearchStrategy[Any]:
    plain = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(max_size=8)
    )
    names = st.one_of(st.text(), st.integers(), st.none())
    return st.recursive(
        # it prints values
        plain | st.sampled_from([value for value in _STRANGE if not isinstance(value, Hostile)]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=6,
    )


_FUZZ = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@_FUZZ
@given(
    metrics=st.dictionaries(st.one_of(st.text(), st.integers(), st.none()), _values(), max_size=4),
    step=st.one_of(
        st.none(), st.integers(), st.floats(), st.text(), st.just(torch.tensor(3)), st.booleans()
    ),
)
def test_log_metrics_takes_anything(metrics: dict[Any, Any], step: Any) -> None:
    with tempfile.TemporaryDirectory() as directory:
        logger = MindInsightLogger(directory, name="", version="run")
        logger.log_metrics(metrics, step)
        logger.log_metrics({"after": 1.0}, step=0)

        assert points(logger.log_dir, "after")[-1] == (0, 1.0) or "after" in metrics


@pytest.mark.slow
@_FUZZ
@given(params=st.one_of(_values(), st.dictionaries(st.text(), _values(), max_size=4)))
def test_log_hyperparams_takes_anything(params: Any) -> None:
    with tempfile.TemporaryDirectory() as directory:
        logger = MindInsightLogger(directory, name="", version="run")
        logger.log_hyperparams(params)
        logger.log_hyperparams({"after": 1})
        logger.log_metrics({"a": 1.0}, step=0)

        assert SummaryReader(logger.log_dir).lineage().custom.values["after"] == 1


_NOT_RECORDABLE: list[tuple[Callable[[MindInsightLogger], object], type[BaseException], str]] = [
    (lambda logger: logger.log_image("a", ["no/such/file.png"]), OSError, "image 'a' is skipped"),
    (
        lambda logger: logger.log_image("a", [np.zeros((2, 5, 7))]),
        ValueError,
        "image 'a' is skipped",
    ),
    (lambda logger: logger.log_histogram("a", "x"), TypeError, "histogram 'a' is skipped"),
    (lambda logger: logger.log_tensor("a", "text"), TypeError, "tensor 'a' is skipped"),
    (
        lambda logger: logger.log_tensor("a", np.zeros(10_000_001, bool)),
        RecordTooLargeError,
        "tensor 'a' is skipped",
    ),
    (lambda logger: logger.log_figure("a", 3), TypeError, "figure 'a' is skipped"),
    (
        lambda logger: logger.log_metrics({"a": Quitting()}, 1),
        SystemExit,
        "metric 'a' is skipped: no float",
    ),
    (lambda logger: logger.log_metrics(None), TypeError, "metrics of 'log_metrics' is skipped"),  # type: ignore[arg-type]
    (lambda logger: logger.experiment.add_tensor("a", "x"), TypeError, "tensor 'a' is skipped"),
]


@pytest.mark.parametrize(
    ("call", "kind", "words"), _NOT_RECORDABLE, ids=lambda part: getattr(part, "__name__", part)
)
def test_a_value_that_cannot_be_recorded_is_skipped_with_one_warning_or_raises_if_asked_to(
    tmp_path: Path,
    call: Callable[[MindInsightLogger], object],
    kind: type[BaseException],
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    patient = MindInsightLogger(tmp_path / "patient")
    for _ in range(3):
        call(patient)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    assert words in warning
    assert files(tmp_path) == []
    with pytest.raises(kind):
        call(MindInsightLogger(tmp_path / "strict", raise_exception=True))


def test_a_keyboard_interrupt_while_a_value_is_read_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        MindInsightLogger(tmp_path).log_metrics({"a": Interrupted()}, 1)


def test_steps_that_do_not_fit_64_bits_are_skipped_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = MindInsightLogger(tmp_path)
    for step in (1, 10**30, -(2**63) - 1, 2, 2**63):
        logger.log_metrics({"a": 1.0}, step)
    logger.log_metrics({"a": 1.0})

    assert points(logger.log_dir, "a") == [(1, 1.0), (2, 1.0), (3, 1.0)]
    (warning,) = caplog.records
    assert warning.getMessage() == f"step must fit 64 bits, got {10**30}. Its values are skipped"


def test_a_step_that_is_no_whole_number_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = MindInsightLogger(tmp_path)
    for step in (2, 7.0, torch.tensor(8), 9.7, "x", 10.5, [1]):
        logger.log_metrics({"a": 1.0}, step=step)  # type: ignore[arg-type]
    logger.log_histogram("h", torch.zeros(3), step="y")  # type: ignore[arg-type]

    assert [step for step, _ in points(logger.log_dir, "a")] == [2, 7, 8, 9, 10]
    assert SummaryReader(logger.log_dir).tags()["histogram"] == []
    fraction, skipped = caplog.messages
    assert fraction == (
        "step of 'log_metrics' must be a whole number, got 9.7. Its whole part 9 is recorded"
    )
    assert skipped.startswith("step of 'log_metrics' is skipped: ")


@pytest.mark.parametrize("params", [5, "lr=0.1", [0.1]], ids=repr)
def test_hyper_parameters_without_names_are_skipped_with_one_warning(
    tmp_path: Path, params: Any, caplog: pytest.LogCaptureFixture
) -> None:
    logger = MindInsightLogger(tmp_path)
    for _ in range(2):
        logger.log_hyperparams(params)

    (message,) = caplog.messages
    assert message.startswith(
        "params of 'log_hyperparams' is skipped: params must be a mapping, Namespace or dataclass"
    )


_WRONG: list[tuple[Callable[[Path], object], type[Exception], str]] = [
    (lambda p: MindInsightLogger(3), TypeError, "save_dir"),  # type: ignore[arg-type]
    (lambda p: MindInsightLogger(p, 3), TypeError, "name"),  # type: ignore[arg-type]
    (lambda p: MindInsightLogger(p, version=1.5), TypeError, "version"),  # type: ignore[arg-type]
    (lambda p: MindInsightLogger(p, version=True), TypeError, "version"),
    (lambda p: MindInsightLogger(p, version=-1), ValueError, "version"),
    (lambda p: MindInsightLogger(p, prefix=None), TypeError, "prefix"),  # type: ignore[arg-type]
    (lambda p: MindInsightLogger(p, sub_dir=3), TypeError, "sub_dir"),  # type: ignore[arg-type]
    (lambda p: MindInsightLogger(f"{p}/a\0b"), ValueError, "save_dir"),
    (lambda p: MindInsightLogger(p, max_file_size="1"), TypeError, "max_file_size"),  # type: ignore[arg-type]
    (lambda p: MindInsightLogger(p, max_file_size=0), ValueError, "max_file_size"),
    (lambda p: MindInsightLogger(p, export_options={"a": "b"}), ValueError, "export_options"),
    (lambda p: MindInsightLogger(p, raise_exception=1), TypeError, "raise_exception"),  # type: ignore[arg-type]
    (lambda p: MindInsightLogger(p, log_graph="yes"), TypeError, "log_graph"),  # type: ignore[arg-type]
    (lambda p: MindInsightLogger(p, file_mode=0o200), ValueError, "file_mode"),
    (lambda p: MindInsightLogger(p).log_image("", [np.zeros((4, 4))]), ValueError, "name"),
    (lambda p: MindInsightLogger(p).log_image(3, []), TypeError, "name"),  # type: ignore[arg-type]
    (lambda p: MindInsightLogger(p).log_image("a", np.zeros((4, 4))), TypeError, "list of images"),
    (lambda p: MindInsightLogger(p).log_image("a", "a.png"), TypeError, "list of images, got str"),
    (lambda p: MindInsightLogger(p).log_image("a", p), TypeError, "list of images, got .*Path"),
    (lambda p: MindInsightLogger(p).log_image("a", 5), TypeError, "list of images, got int"),  # type: ignore[arg-type]
    (
        lambda p: MindInsightLogger(p).log_image("a", [np.zeros((4, 4))], dataformats="WX"),
        ValueError,
        "dataformats",
    ),
    (lambda p: MindInsightLogger(p).log_histogram(3, np.zeros(2)), TypeError, "name"),  # type: ignore[arg-type]
    (lambda p: MindInsightLogger(p).log_tensor("", np.zeros(2)), ValueError, "name"),
    (lambda p: MindInsightLogger(p).log_figure(None, 3), TypeError, "name"),  # type: ignore[arg-type]
    (lambda p: MindInsightLogger(p).log_graph("model"), TypeError, "model"),
    (lambda p: SummaryCollector(3), TypeError, "summary_dir"),  # type: ignore[arg-type]
    (lambda p: SummaryCollector(p, 0), ValueError, "collect_freq"),
    (lambda p: SummaryCollector(p, True), TypeError, "collect_freq"),
    (lambda p: SummaryCollector(p, 1.0), TypeError, "collect_freq"),  # type: ignore[arg-type]
    (lambda p: SummaryCollector(p, collect_tensor_freq=0), ValueError, "collect_tensor_freq"),
    (lambda p: SummaryCollector(p, collect_input_freq=-1), ValueError, "collect_input_freq"),
    (lambda p: SummaryCollector(p, max_file_size=-1), ValueError, "max_file_size"),
    (lambda p: SummaryCollector(p, keep_default_action=1), TypeError, "keep_default_action"),  # type: ignore[arg-type]
    (lambda p: SummaryCollector(p, collect_specified_data=[]), TypeError, "collect_specified"),  # type: ignore[arg-type]
    (lambda p: SummaryCollector(p, collect_specified_data={"a": 1}), ValueError, "collect_metric"),  # type: ignore[typeddict-unknown-key]
    (
        lambda p: SummaryCollector(p, collect_specified_data={"collect_metric": 1}),  # type: ignore[typeddict-item]
        TypeError,
        "collect_metric",
    ),
    (
        lambda p: SummaryCollector(p, collect_specified_data={"histogram_regular": "("}),
        ValueError,
        "histogram_regular",
    ),
    (
        lambda p: SummaryCollector(p, collect_specified_data={"collect_landscape": {"size": 3}}),
        ValueError,
        "landscape_size",
    ),
    (
        lambda p: SummaryCollector(p, custom_lineage_data={"a": [1]}),
        TypeError,
        "custom_lineage_data",
    ),  # type: ignore[dict-item]
    (lambda p: SummaryCollector(p, custom_lineage_data={1: 1}), TypeError, "custom_lineage_data"),  # type: ignore[dict-item]
    (
        lambda p: SummaryCollector(p, export_options={"tensor_format": "h5"}),
        ValueError,
        "tensor_format",
    ),
    (lambda p: SummaryCollector(p, collect_gradients=3), TypeError, "collect_gradients"),  # type: ignore[arg-type]
    (lambda p: SummaryCollector(p, collect_gradients="("), ValueError, "collect_gradients"),
    (lambda p: SummaryCollector(p, landscape_max_bytes=0), ValueError, "landscape_max_bytes"),
    (lambda p: TrainLineage(3), TypeError, "summary_record"),  # type: ignore[arg-type]
    (lambda p: TrainLineage(p, "no"), TypeError, "raise_exception"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "kind", "words"), _WRONG, ids=[words for _, _, words in _WRONG])
def test_a_wrong_argument_raises_at_the_call_and_makes_nothing(
    tmp_path: Path, call: Callable[[Path], object], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        call(tmp_path)

    assert files(tmp_path) == []


class _Replace(L.Callback):
    """Puts a file in the place of the runs; one that is there before the training is refused."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        runs = Path(trainer.logger.save_dir)
        shutil.rmtree(runs, ignore_errors=True)
        runs.write_text("not a directory", encoding="utf-8")


def test_a_record_that_cannot_be_written_does_not_stop_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = trainer(
        logger=MindInsightLogger(tmp_path / "runs"), callbacks=[_Replace(), SummaryCollector()]
    )
    running.fit(Net(), loader())

    assert running.global_step == 6
    first, lost = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert "Training continues" in first
    assert "could not be written in total" in lost  # the checkpoints of a landscape among them


def test_a_record_that_cannot_be_written_stops_training_if_asked_to(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path / "runs", raise_exception=True)

    with pytest.raises(OSError, match="runs"):
        trainer(logger=logger, callbacks=[_Replace()]).fit(Net(), loader())
