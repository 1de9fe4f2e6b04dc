"""``logger.experiment.add_*`` as users of TensorBoard's SummaryWriter call it."""

from __future__ import annotations

import inspect
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as PillowImage

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.conversion.histograms import to_histogram
from mindsummary_lightning.recording.tensorboard_api import TensorBoardMethods
from mindsummary_lightning.values import (
    Graph,
    Histogram,
    Image,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
)
from tests.support import read_events, read_values


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def experiment(run: Path) -> Iterator[SummaryRecord]:
    with SummaryRecord(run) as record:
        yield record


def test_a_histogram_has_mindspores_buckets_whatever_bins_says(
    experiment: SummaryRecord, run: Path
) -> None:
    array = np.arange(50.0)
    experiment.add_histogram("h", array, 1, bins="auto")

    ((_, _, value),) = read_values(run)
    assert isinstance(value, Histogram)
    assert value.counts.tolist() == to_histogram(array).counts.tolist()


def test_a_figure_is_recorded_and_closed_unless_told_not_to(
    experiment: SummaryRecord, run: Path
) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    first, second = plt.figure(), plt.figure()
    experiment.add_figure("f", first, 1)
    experiment.add_figure("f", second, 2, close=False)
    still_open = [number for number in plt.get_fignums() if plt.figure(number) in (first, second)]
    plt.close(second)

    assert [type(value) for _, _, value in read_values(run)] == [Image, Image]
    assert len(still_open) == 1


def test_a_tensor_keeps_every_element(experiment: SummaryRecord, run: Path) -> None:
    experiment.add_tensor("t", np.arange(4.0).reshape(2, 2), 1)

    ((_, _, value),) = read_values(run)
    assert isinstance(value, Tensor)
    assert value.data.tolist() == [[0, 1], [2, 3]]


def test_a_kind_without_a_page_is_warned_of_once_and_skipped(
    experiment: SummaryRecord, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        experiment.add_text("t", "hello", global_step=1)
        experiment.add_embedding(np.ones((2, 2)))

    assert not run.exists()
    assert [line.getMessage() for line in caplog.records] == [
        "add_text is skipped: MindInsight has no page for what it records",
        "add_embedding is skipped: MindInsight has no page for what it records",
    ]


def test_every_method_of_a_summary_writer_is_there(experiment: SummaryRecord) -> None:
    writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter

    assert [
        name
        for name in dir(writer)
        if name[0] != "_" and not callable(getattr(experiment, name, None))
    ] == []


def test_boxes_are_drawn_where_tensorboard_draws_them(experiment: SummaryRecord, run: Path) -> None:
    image = np.zeros((3, 40, 60), np.float32)
    boxes = np.array([[5, 6, 25, 30], [30, 10, 50, 35]])
    experiment.add_image_with_boxes("i", image, boxes, 3)
    experiment.add_image_with_boxes("half", image, boxes, 3, rescale=0.5, labels=["a", "b"])

    (step, _, drawn), (_, _, half) = read_values(run)
    pixels = np.asarray(PillowImage.open(io.BytesIO(drawn.encoded)))
    torch_summary = pytest.importorskip("torch.utils.tensorboard.summary")
    expected = torch_summary.image_boxes("i", image, boxes).value[0].image
    assert step == 3
    np.testing.assert_array_equal(
        pixels, PillowImage.open(io.BytesIO(expected.encoded_image_string))
    )
    assert (half.width, half.height) == (30, 20)


def test_boxes_of_another_shape_are_skipped_with_a_sentence(
    experiment: SummaryRecord, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    experiment.add_image_with_boxes("i", np.zeros((3, 4, 4)), np.zeros(4), 1)

    assert not run.exists()
    assert caplog.messages[0].startswith("image 'i' is skipped: boxes must have the shape (n, 4)")


def test_a_list_of_figures_is_one_image(experiment: SummaryRecord, run: Path) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    open_before = plt.get_fignums()
    figures = [plt.figure(figsize=(1, 1)) for _ in range(2)]
    experiment.add_figure("f", figures, 1)

    [(_, _, image)] = read_values(run)
    assert (image.width, image.height) == (200, 100)
    assert plt.get_fignums() == open_before


def test_what_is_not_a_figure_closes_no_figure(
    experiment: SummaryRecord, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    open_before = plt.get_fignums()
    mine = plt.figure()
    experiment.add_figure("f", None, 1)
    experiment.add_figure("f", [], 1)

    assert plt.get_fignums() == [*open_before, mine.number]
    plt.close(mine)
    assert caplog.messages[0].startswith(
        "figure 'f' is skipped: expected a matplotlib.figure.Figure"
    )


@pytest.mark.parametrize(
    "step", ["x", float("nan"), [1, 2], np.ones(2)], ids=["text", "NaN", "list", "array"]
)
def test_a_step_that_is_not_a_number_skips_the_value(
    experiment: SummaryRecord, run: Path, caplog: pytest.LogCaptureFixture, step: Any
) -> None:
    experiment.add_scalar("a", 1.0, step)
    experiment.add_scalars("a", {"b": 1.0}, step)
    experiment.add_scalar("a", 2.0, np.int64(7))
    experiment.add_scalar("a", 3.0, 8.9)

    assert read_values(run) == [(7, "a", 2.0), (8, "a", 3.0)]
    skipped, fraction = caplog.messages
    assert skipped.startswith("global_step of 'a' is skipped: ")
    assert fraction == (
        "global_step of 'a' must be a whole number, got 8.9. Its whole part 8 is recorded"
    )


def test_every_argument_of_a_summary_writer_has_its_name_and_place() -> None:
    writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter
    for name in [name for name in vars(TensorBoardMethods) if name.startswith("add_")]:
        ours, theirs = (
            inspect.signature(getattr(owner, name)).parameters for owner in (SummaryRecord, writer)
        )
        assert [(each.name, each.default) for each in ours.values()] == [
            (each.name, each.default) for each in theirs.values()
        ]


@pytest.mark.parametrize("values", [None, 3, ["a", 1.0]], ids=repr)
def test_scalars_that_are_not_a_mapping_are_skipped(
    experiment: SummaryRecord, run: Path, caplog: pytest.LogCaptureFixture, values: Any
) -> None:
    experiment.add_scalars("a", values, 1)

    assert not run.exists()
    assert caplog.messages[0].startswith("scalars 'a' is skipped: ")


def test_a_number_that_cannot_be_recorded_leaves_the_others_of_its_call(
    experiment: SummaryRecord, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (None, 7, None):
        experiment.add_scalars("main", {"a": 1.0, "b": "text", "c": 2.0}, step)

    assert read_values(run) == [
        (0, "main/a", 1.0),
        (0, "main/c", 2.0),
        (7, "main/a", 1.0),
        (7, "main/c", 2.0),
        (1, "main/a", 1.0),
        (1, "main/c", 2.0),
    ]
    (message,) = caplog.messages
    assert message.startswith("scalar 'main/b' is skipped: ")


@pytest.mark.parametrize(
    ("add", "layout", "shape"),
    [
        ("add_image", "CHW", (3, 4, 5)),
        ("add_image", "HWC", (4, 5, 3)),
        ("add_image", "HW", (4, 5)),
        ("add_images", "NCHW", (1, 3, 4, 5)),
        ("add_images", "NHWC", (1, 4, 5, 3)),
    ],
)
def test_the_axes_of_an_image_are_those_that_are_named(
    experiment: SummaryRecord, run: Path, add: str, layout: str, shape: tuple[int, ...]
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    getattr(experiment, add)("i", pixels, 9, dataformats=layout)

    ((step, tag, image),) = read_values(run)
    rows = pixels.reshape(shape[-len(layout.lstrip("N")) :])
    expected = rows.transpose(1, 2, 0) if "CHW" in layout else rows.reshape(4, 5, -1)
    assert (step, tag) == (9, "i")
    assert isinstance(image, Image)
    assert (image.height, image.width) == (4, 5)
    np.testing.assert_array_equal(
        np.asarray(PillowImage.open(io.BytesIO(image.encoded)).convert("RGB")),
        np.broadcast_to(expected, (4, 5, 3)),
    )


@pytest.mark.parametrize("add", ["add_image", "add_images", "add_image_with_boxes"])
def test_axes_that_are_none_are_refused_at_the_call(
    experiment: SummaryRecord, run: Path, add: str
) -> None:
    boxes = [np.zeros((1, 4))] if add == "add_image_with_boxes" else []
    with pytest.raises(ValueError, match="dataformats"):
        getattr(experiment, add)("i", np.zeros((3, 4, 5)), *boxes, 1, dataformats="XYZ")

    assert not run.exists()


def test_buckets_that_were_counted_already_are_kept_as_they_are(
    experiment: SummaryRecord, run: Path
) -> None:
    experiment.add_histogram_raw(
        "h", 1.0, 9.0, 10, 42.5, 99.0, [2.0, 5.0, 9.0], [1, 2, 7], global_step=4
    )

    ((step, tag, value),) = read_values(run)
    assert (step, tag) == (4, "h")
    assert isinstance(value, Histogram)
    assert (value.min, value.max, value.count, value.sum) == (1.0, 9.0, 10, 42.5)
    assert value.counts.tolist() == [1, 2, 7]
    assert (value.lefts + value.widths).tolist() == [2.0, 5.0, 9.0]


def test_a_graph_is_that_of_the_given_input_or_of_the_example_of_the_module(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.exp() if len(x) == 3 else x.abs()

    net = Net()
    operations = []
    for number, (example, given) in enumerate(
        ((None, torch.ones(3)), (torch.ones(3), torch.ones(2)), (torch.ones(3), None))
    ):
        net.example_input_array = example
        with SummaryRecord(run / str(number)) as record:
            record.add_graph(net, given)
            record.add_graph(net, torch.ones(2))
        (graph,) = [
            event.what for event in read_events(run / str(number)) if isinstance(event.what, Graph)
        ]
        operations.append([node.op_type for node in graph.nodes if node.op_type in ("exp", "abs")])
    assert operations == [["exp"], ["abs"], ["exp"]]
    assert caplog.messages == []

    with SummaryRecord(run / "none") as record:
        record.add_graph(torch.nn.Linear(2, 3))
    (message,) = caplog.messages
    assert message == (
        "add_graph needs an input to record the graph. Pass an input, or give the module an "
        "example_input_array. A SummaryCollector records the graph without an input"
    )
    assert not (run / "none").exists()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("add_scaler", "add_scalar"),
        ("add_vidoe", "add_video"),
        ("log_metrics", "another tracker has it. Here: logger.log_metrics({name: value}, step)"),
        ("_add_scaler", ""),
    ],
)
def test_a_name_that_is_none_is_answered_with_the_nearest(
    experiment: SummaryRecord, name: str, hint: str
) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(experiment, name)

    text, begin = str(raised.value), f"'SummaryRecord' object has no attribute '{name}'"
    assert text.startswith(begin)
    assert hint in text
    assert (text == begin) == (not hint)


# ---- trials


def _row(run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and metrics of the run's row."""
    lineage = SummaryReader(run).lineage()
    metric = lineage.evaluation.metric if lineage.evaluation is not None else None
    return dict(lineage.custom.values) if lineage.custom else {}, json.loads(metric or "{}")


def test_another_trial_replaces_the_whole_row(
    experiment: SummaryRecord, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    experiment.add_hparams({"model": "cnn", "dropout": 0.5}, {"accuracy": 0.5})
    experiment.add_hparams({"model": "mlp", "width": 64}, {})

    assert _row(run) == ({"model": "mlp", "width": 64}, {})
    assert len(caplog.messages) == 1


def test_settings_that_a_trial_lacks_are_a_change_that_is_said(
    experiment: SummaryRecord, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    experiment.add_hparams({"lr": 0.1, "dropout": 0.5}, {})
    experiment.add_hparams({"lr": 0.1}, {})

    assert _row(run)[0] == {"lr": 0.1}
    assert "add_hparams replaces the values of an earlier trial" in caplog.text


@pytest.mark.parametrize(
    ("calls", "row"),
    [
        ([({"lr": 0.1}, {}), ({"lr": 0.1}, {"accuracy": 0.5})], ({"lr": 0.1}, {"accuracy": 0.5})),
        ([({"lr": 0.1}, {"accuracy": 0.5}), ({}, {"loss": 1.0})], ({"lr": 0.1}, {"loss": 1.0})),
        (
            [({"lr": 0.1}, {"accuracy": 0.5}), ({"lr": 0.1, "w": 1}, {})],
            ({"lr": 0.1, "w": 1}, {"accuracy": 0.5}),
        ),
        (
            [({"a": {"b": 1}}, {}), ({"a": {"c": 2}}, {}), ({"a": {"c": 2}, "d": 3}, {})],
            ({"a/c": 2, "d": 3}, {}),
        ),
    ],
)
def test_one_trial_in_several_calls_is_one_row(
    calls: list[tuple[dict[str, Any], dict[str, Any]]], row: tuple[dict[str, Any], dict[str, Any]],
    experiment: SummaryRecord, run: Path,
) -> None:  # fmt: skip
    for call in calls:
        experiment.add_hparams(*call)

    assert _row(run) == row


def test_settings_and_metrics_that_are_no_dicts_are_refused(
    experiment: SummaryRecord, run: Path
) -> None:
    for arguments in (([("lr", 0.1)], {}), ({"lr": 0.1}, [("accuracy", 1.0)])):
        with pytest.raises(TypeError, match="hparam_dict and metric_dict must be dicts, got "):
            experiment.add_hparams(*arguments)  # type: ignore[arg-type]

    assert not run.exists()


def test_a_third_trial_keeps_nothing_of_the_first_and_the_second(
    experiment: SummaryRecord, run: Path
) -> None:
    for settings, metrics in (
        ({"lr": 0.1, "first": 1}, {"accuracy": 0.5}),
        ({"lr": 0.2, "second": 2}, {}),
        ({"lr": 0.3, "third": 3}, {}),
        ({}, {"loss": 2.0}),
        ({"lr": 0.4}, {}),
    ):
        experiment.add_hparams(settings, metrics)
        expected = {**settings} if settings else {"lr": 0.3, "third": 3}
        assert _row(run) == (expected, metrics)


def test_a_trial_leaves_what_others_recorded(experiment: SummaryRecord, run: Path) -> None:
    experiment.add_value("custom_lineage_data", "c", UserDefinedInfo({"note": "mine"}))
    experiment.add_value("train_lineage", "t", TrainInfo(batch_size=32, network="Net"))
    experiment.record(1)
    # the first one is in the training lineage
    experiment.add_hparams({"batch_size": 32, "lr": 0.1}, {})
    experiment.add_hparams({"depth": 3}, {})

    assert _row(run)[0] == {"note": "mine", "depth": 3}
    assert SummaryReader(run).lineage().train == TrainInfo(batch_size=32, network="Net")


# ---- steps that are counted


def test_each_tag_of_add_scalars_is_counted_from_0(experiment: SummaryRecord, run: Path) -> None:
    for number in range(3):
        experiment.add_scalars("loss", {"train": float(number)})
        experiment.add_scalars("loss", {"val": float(number)})
    experiment.add_scalars("loss", {"train": 3.0, "test": 3.0})
    experiment.add_scalar("loss/train", 4.0)
    experiment.add_scalar("loss", 5.0)

    steps = {tag: series.steps.tolist() for tag, series in SummaryReader(run).all_scalars().items()}
    assert steps == {
        "loss/train": [0, 1, 2, 3, 4],
        "loss/val": [0, 1, 2],
        "loss/test": [0],
        "loss": [0],
    }


def test_each_kind_of_a_tag_is_counted_from_0(experiment: SummaryRecord, run: Path) -> None:
    for _ in range(2):
        experiment.add_scalar("x", 1.0)
        experiment.add_histogram("x", [1.0, 2.0])
        experiment.add_tensor("x", [1.0, 2.0])
        experiment.add_image("x", np.zeros((3, 4, 4), np.uint8))

    found: dict[type, list[int]] = {}
    for step, _, value in read_values(run):
        found.setdefault(type(value), []).append(step)
    assert found == {float: [0, 1], Histogram: [0, 1], Tensor: [0, 1], Image: [0, 1]}
