from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import types_pb2
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.util.tensor_util import make_ndarray, make_tensor_proto
from torch.utils.tensorboard import SummaryWriter

from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.export.tensorboard import export_tensorboard, import_tensorboard
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.reading.summary_reader import SummaryReader
from mindsummary_lightning.recording.summary_record import recorder_of
from mindsummary_lightning.values import (
    DataType,
    Graph,
    GraphConstant,
    GraphInput,
    GraphNode,
    GraphParameter,
    TensorType,
    TrainInfo,
    UserDefinedInfo,
)
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.export.tensorboard_files import event, tensor_value, write_tb
from tests.reading.runs import histogram, values_at, write_mindspore_run, write_summary


def _exported(run: Path, out: Path) -> EventAccumulator:
    export_tensorboard(str(run), str(out))
    return EventAccumulator(
        str(out), size_guidance={"scalars": 0, "histograms": 0, "images": 0, "tensors": 0}
    ).Reload()


def _keras(tag: str, step: int, array: Any, plugin: str) -> Event:
    return event(step, tensor_value(tag, array, plugin))


# ---- out


def test_tensorboard_reads_what_was_exported(tmp_path: Path) -> None:
    write_demo_run(tmp_path / "run")
    reader = SummaryReader(tmp_path / "run")

    found = _exported(tmp_path / "run", tmp_path / "tb")

    loss = reader.scalars("loss/auto")
    scalars = found.Scalars("loss/auto")
    assert [event.step for event in scalars] == loss.steps.tolist()
    assert [event.wall_time for event in scalars] == loss.wall_times.tolist()
    assert [event.value for event in scalars] == loss.values.tolist()
    assert [
        (event.step, event.wall_time, event.encoded_image_string, event.width, event.height)
        for event in found.Images("input_data/auto")
    ] == [
        (step, wall_time, image.encoded, 48, 24)
        for step, wall_time, image in reader.images("input_data/auto")
    ]
    histograms = [event.histogram_value for event in found.Histograms("conv1.weight/auto")]
    assert [sum(value.bucket) for value in histograms] == [864] * 6
    (logits,) = found.Tensors("logits")
    assert (logits.step, make_ndarray(logits.tensor_proto).tolist()) == (60, np.eye(3).tolist())


def test_a_run_that_grows_meanwhile_is_exported_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_summary(tmp_path / "run", [values_at(1, {"loss": 0.5})])

    def host() -> str:  # which is asked for in between
        with path.open("ab") as file:
            file.write(values_at(2, {"loss": 0.25, "accuracy": 1.0}))
        return "host"

    monkeypatch.setattr("socket.gethostname", host)

    assert _exported(tmp_path / "run", tmp_path / "tb").Tags()["scalars"] == ["loss"]


def test_a_run_of_mindspore_is_exported(tmp_path: Path) -> None:
    write_mindspore_run(tmp_path / "run")

    assert [
        event.step for event in _exported(tmp_path / "run", tmp_path / "tb").Scalars("loss")
    ] == [1, 2, 3]


def test_tensorboard_reads_settings_and_graph(tmp_path: Path) -> None:
    weight = TensorType(DataType.FLOAT32, (4, 3))
    nodes = (
        GraphNode(
            "1",
            "Linear",
            "net",
            "net/Linear-op1",
            (GraphInput("w"), GraphInput("gone")),
            output_type=weight,
        ),
        GraphNode(
            "2", "ReLU", "net", "net/ReLU-op2", (GraphInput("c", is_control=True), GraphInput("1"))
        ),
    )
    graph = Graph(
        nodes, parameters=(GraphParameter("w", weight),), constants=(GraphConstant("c", 2),)
    )
    with SummaryRecord(tmp_path / "run") as writer:
        recorder_of(writer).write_graph(graph)
        recorder_of(writer).write_lineage(TrainInfo(network="LeNet", learning_rate=0.5, loss=0.25))
        recorder_of(writer).write_lineage(
            UserDefinedInfo({"note": "first", "fold": 3, "loss": "MAE()"})
        )

    found = _exported(tmp_path / "run", tmp_path / "tb")

    assert [(node.name, node.op, list(node.input)) for node in found.Graph().node] == [
        ("w", "Parameter", []),
        ("c", "Const", []),
        ("net/Linear-op1", "Linear", ["w"]),
        ("net/ReLU-op2", "ReLU", ["net/Linear-op1", "^c"]),
    ]
    (shape,) = found.Graph().node[2].attr["_output_shapes"].list.shape
    assert [dim.size for dim in shape.dim] == [4, 3]
    content = found.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    settings = HParamsPluginData.FromString(content).session_start_info.hparams
    assert {name: getattr(value, value.WhichOneof("kind")) for name, value in settings.items()} == {
        "network": "LeNet",
        "learning_rate": 0.5,
        "note": "first",
        "fold": 3,
        "user_defined/loss": "MAE()",
    }


def test_operations_without_full_names_keep_their_names(tmp_path: Path) -> None:
    nodes = (GraphNode("1", "Conv2D"), GraphNode("2", "ReLU", inputs=(GraphInput("1"),)))
    with SummaryRecord(tmp_path / "run") as writer:
        recorder_of(writer).write_graph(Graph(nodes))

    found = _exported(tmp_path / "run", tmp_path / "tb").Graph().node
    assert [(node.name, node.op, list(node.input)) for node in found] == [
        *(("1", "Conv2D", []), ("2", "ReLU", ["1"]))
    ]


def test_weights_are_drawn_in_their_module_and_inputs_outside(tmp_path: Path) -> None:
    names = ("batch.0", "net.0.weight", "net.0.bias", "net.00.weight", "shared")
    nodes = (
        GraphNode(
            "1",
            "Linear",
            "net-Net/0-Linear",
            "net-Net/0-Linear/Linear-op1",
            tuple(map(GraphInput, names)),
        ),
        GraphNode("2", "sum", "", "sum-op2", (GraphInput("1"), GraphInput("net.0.bias"))),
    )
    with SummaryRecord(tmp_path / "run") as writer:
        recorder_of(writer).write_graph(Graph(nodes, parameters=tuple(map(GraphParameter, names))))

    found = [
        (node.name, list(node.input))
        for node in _exported(tmp_path / "run", tmp_path / "tb").Graph().node
    ]

    drawn = [
        "batch.0",
        "net-Net/0-Linear/weight",
        "net-Net/0-Linear/bias",
        "net.00.weight",
        "shared",
    ]
    assert found[:5] == [(name, []) for name in drawn]
    assert found[5:] == [
        ("net-Net/0-Linear/Linear-op1", drawn),
        ("sum-op2", ["net-Net/0-Linear/Linear-op1", "net-Net/0-Linear/bias"]),
    ]


def test_results_in_the_custom_data_are_not_settings(tmp_path: Path) -> None:
    with SummaryRecord(tmp_path / "run") as writer:
        for step, loss in enumerate((0.7, 0.2)):
            writer.add_value("scalar", "val/loss", loss)
            writer.add_value("scalar", "temperature", 2.0 + step)
            writer.record(step)
        custom = {
            "val/loss": float(np.float32(0.2)),
            "temperature": 2.0,
            "final_learning_rate": 0.0,
            "fold": 3,
        }
        recorder_of(writer).write_lineage(UserDefinedInfo(custom))

    found = _exported(tmp_path / "run", tmp_path / "tb")

    content = found.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    assert set(HParamsPluginData.FromString(content).session_start_info.hparams) == {
        "temperature",
        "fold",
    }


@pytest.mark.parametrize("size", [1.0, 2.0**-30])
def test_a_bucket_that_begins_elsewhere_is_counted_however_small(
    tmp_path: Path, size: float
) -> None:
    whole = histogram(3, 4)
    same = replace(
        whole, lefts=whole.lefts * size, widths=whole.widths * size, min=0.0, max=2 * size
    )
    other = replace(same, min=0.25 * size)
    write_summary(tmp_path / "run", [values_at(1, {"same": same, "other": other})])

    exported = export_tensorboard(str(tmp_path / "run"), str(tmp_path / "tb"))

    assert exported.changed == {"histogram: extremes or buckets differ": 1}


def test_a_histogram_of_unknown_sum_has_an_unknown_sum_there_and_back(tmp_path: Path) -> None:
    some = replace(histogram(3, 4), min=0.25, max=1.5, sum=None)
    write_summary(tmp_path / "run", [values_at(1, {"h": some})])

    (found,) = _exported(tmp_path / "run", tmp_path / "tb").Histograms("h")
    import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    assert np.isnan(found.histogram_value.sum)
    ((_, _, back),) = SummaryReader(tmp_path / "mi").histograms("h")
    assert (back.min, back.max, back.sum, back.count) == (0.25, 1.5, None, 7)


@pytest.mark.parametrize(
    ("scalars", "renamed"),
    [(["w"], "w/histogram"), (["w", "w/histogram"], "w/histogram/histogram")],
)
def test_a_tag_of_two_kinds_becomes_two_tags_none_of_which_is_another(
    tmp_path: Path, scalars: list[str], renamed: str
) -> None:
    write_summary(
        tmp_path / "run",
        [values_at(1, dict.fromkeys(scalars, 1.0)), values_at(1, {"w": histogram(1, 2)})],
    )

    tags = _exported(tmp_path / "run", tmp_path / "tb").Tags()
    changed = export_tensorboard(str(tmp_path / "run"), str(tmp_path / "again")).changed

    assert (tags["scalars"], tags["histograms"]) == (scalars, [renamed])
    assert [text.startswith("tag: its kind was added at the end") for text in changed] == [True]


# ---- in


def test_torchs_writer_is_understood(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    with SummaryWriter(str(tmp_path / "tb")) as writer:
        writer.add_scalar("loss", 0.5, 3, walltime=1234.5)
        writer.add_scalar("loss", 0.25, 4, new_style=True)
        writer.add_histogram("w", data, 3)
        writer.add_histogram("w_max", data, 3, bins="auto")
        writer.add_image("i", np.zeros((3, 4, 5), np.uint8), 3)
        writer.add_tensor("t", __import__("torch").arange(6.0).reshape(2, 3), 3)
        writer.add_text("note", "hello", 3)

    (run,) = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))
    reader = SummaryReader(tmp_path / "mi")

    series = reader.scalars("loss")
    assert (series.steps.tolist(), series.values.tolist(), series.wall_times[0]) == (
        [3, 4],
        [0.5, 0.25],
        1234.5,
    )
    for tag in ("w", "w_max"):
        ((_, _, found),) = reader.histograms(tag)
        assert (found.count, int(found.counts.sum())) == (5000, 5000)
        assert found.counts.size <= 90
        np.testing.assert_allclose([found.min, found.max], [data.min(), data.max()])
    ((_, _, picture),) = reader.pictures("i")
    assert picture.size == (5, 4)
    assert next(reader.tensors("t"))[2].data.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert run.skipped["text"] == 1


def test_tensorboardxs_writer_is_understood(tmp_path: Path) -> None:
    tensorboardX = pytest.importorskip("tensorboardX")
    with tensorboardX.SummaryWriter(str(tmp_path / "tb")) as writer:
        writer.add_scalar("loss", 0.5, 3)
        writer.add_histogram("w", np.arange(100.0), 3)
        writer.add_image("i", np.zeros((3, 4, 5), np.uint8), 3)

    import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))
    reader = SummaryReader(tmp_path / "mi")

    assert reader.scalars("loss").values.tolist() == [0.5]
    assert next(reader.histograms("w"))[2].counts.sum() == 100
    assert next(reader.images("i"))[2].width == 5


def test_keras_style_tensors_are_understood(tmp_path: Path) -> None:
    png = b"\x89PNG bytes"
    buckets = np.array([[0.0, 1.0, 3.0], [1.0, 2.0, 4.0]])
    write_tb(
        tmp_path / "tb" / "train",
        _keras("epoch_loss", 1, np.float32(0.5), "scalars"),
        _keras("w", 1, buckets, "histograms"),
        _keras("i", 1, np.array([b"5", b"4", png, png], object), "images"),
        _keras("text", 1, np.array([b"hello"], object), "text"),
    )

    (run,) = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))
    reader = SummaryReader(tmp_path / "mi" / "train")

    assert reader.scalars("epoch_loss").values.tolist() == [0.5]
    assert next(reader.histograms("w"))[2].counts.tolist() == [3, 4]
    assert reader.tags()["image"] == ["i", "i/1"]
    assert next(reader.images("i"))[2].encoded == png
    assert run.skipped == {"text": 1}


def test_a_lightning_run_brings_its_hyper_parameters(tmp_path: Path) -> None:
    from lightning.pytorch.loggers import TensorBoardLogger

    logger = TensorBoardLogger(tmp_path / "tb")
    logger.log_hyperparams({"lr": 0.01, "layers": 3, "name": "net", "flag": True})
    for step in range(5):
        logger.log_metrics({"loss": 1.0 / (step + 1)}, step)
    logger.finalize("success")

    import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))
    reader = SummaryReader(tmp_path / "mi" / "lightning_logs-version_0")

    assert reader.scalars("loss").steps.tolist() == [0, 1, 2, 3, 4]
    custom = reader.lineage().custom
    assert custom.values == {"lr": 0.01, "layers": 3, "name": "net", "flag": 1}


def test_values_of_one_step_share_an_event(tmp_path: Path) -> None:
    events = [
        Event(
            step=step,
            wall_time=step + 0.5,
            summary=Summary(value=[Summary.Value(tag=tag, simple_value=1.0)]),
        )
        for step in (1, 2)
        for tag in ("a", "b")
    ]
    write_tb(tmp_path / "tb", *events)

    import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    found = [
        event.what
        for event in SummaryReader(tmp_path / "mi").events()
        if isinstance(event.what, tuple)
    ]
    assert found == [(("a", 1.0), ("b", 1.0))] * 2


def test_a_restarted_run_is_put_together_as_tensorboard_does(tmp_path: Path) -> None:
    def events(steps: range, value: float) -> list[Event]:
        summary = Summary(value=[Summary.Value(tag="a", simple_value=value)])
        return [Event(step=step, wall_time=1.0, summary=summary) for step in steps]

    write_tb(tmp_path / "tb", *events(range(1, 6), 1.0))
    write_tb(tmp_path / "tb", *events(range(3, 5), 2.0), second=1600000009)

    import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    assert SummaryReader(tmp_path / "mi").scalars("a").values.tolist() == [1.0, 1.0, 2.0, 2.0]


def test_a_damaged_record_is_named_and_the_rest_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_tb(tmp_path / "tb" / "a", _keras("loss", 1, np.float32(0.5), "scalars"))
    whole = path.read_bytes()
    flipped = bytearray(b"".join(frame([b"no event at all"])))
    flipped[14] ^= 1  # the payload does not have its CRC
    path.write_bytes(whole + b"".join(frame([b"\xff\xff"])) + bytes(flipped) + whole)
    write_tb(tmp_path / "tb" / "b", _keras("loss", 2, np.float32(0.25), "scalars"))

    answer = mindsummary(capsys, "import", tmp_path / "tb", "--out", tmp_path / "mi")

    assert answer.code == 1
    assert (
        f"a record that is not an event of TensorBoard, byte {len(whole)} of {path}" in answer.err
    )
    assert "CRC is" in answer.err
    assert f"byte {len(whole) + 18} of {path}" in answer.err
    assert SummaryReader(tmp_path / "mi" / "a").scalars("loss").values.tolist() == [0.5]
    assert SummaryReader(tmp_path / "mi" / "b").scalars("loss").values.tolist() == [0.25]


@pytest.mark.parametrize(
    ("dtype", "recorded"),
    [
        (torch.float16, DataType.FLOAT16),
        (torch.bfloat16, DataType.FLOAT32),  # the format has no bfloat16
        (torch.uint8, DataType.UINT8),
    ],
)
def test_tensors_of_torch_are_read_although_tensorboard_cannot(
    tmp_path: Path, dtype: torch.dtype, recorded: DataType
) -> None:
    tensors = {"t": [[1.0, 2.0, 0.0]], "scalar": 3.0, "zeros": [0.0, 0.0]}
    with SummaryWriter(str(tmp_path / "tb")) as writer:
        for tag, elements in tensors.items():
            writer.add_tensor(tag, torch.tensor(elements, dtype=dtype), 1)

    (run,) = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    assert (run.skipped, run.problems, run.written) == ({}, {}, {"tensor": 3})
    reader = SummaryReader(run.run_dir)
    for tag, elements in tensors.items():
        ((_, _, tensor),) = reader.tensors(tag)
        assert (tensor.data.tolist(), tensor.data_type) == (elements, recorded)


def test_half_precision_is_read_as_tensorflow_writes_it(tmp_path: Path) -> None:
    message = _keras("t", 1, np.ones(2, np.float32), "tensor")
    bits = np.array([1.5, 0.0, -2.0], np.float16).view(np.uint16).tolist()
    shape = make_tensor_proto(np.zeros(3, np.float32)).tensor_shape
    half = TensorProto(dtype=types_pb2.DT_HALF, half_val=bits, tensor_shape=shape)
    message.summary.value[0].tensor.CopyFrom(half)
    write_tb(tmp_path / "tb", message)

    (run,) = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    ((_, _, tensor),) = SummaryReader(run.run_dir).tensors("t")
    assert (tensor.data.tolist(), tensor.data_type) == ([1.5, 0.0, -2.0], DataType.FLOAT16)


@pytest.mark.parametrize(
    ("array", "plugin"),
    [
        (np.ones(2, np.complex64), "tensor"),
        (np.array([b"text"], object), "tensor"),
        (np.ones(2, np.float32), "scalars"),
        (np.array([b"text"], object), "scalars"),
        (np.ones((3, 3), np.float32), "images"),
        (np.array([5, 4, 3]), "images"),
        (np.ones((3, 4), np.float32), "histograms"),
        (np.ones(3, np.float32), "histograms"),
    ],
)
def test_a_tensor_that_is_not_of_its_kind_is_counted(
    tmp_path: Path, array: Any, plugin: str
) -> None:
    write_tb(tmp_path / "tb", _keras("t", 1, array, plugin), _keras("u", 2, array, plugin))

    (run,) = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    assert (run.skipped, run.written, run.problems) == ({plugin: 2}, {}, {})


@pytest.mark.parametrize(
    ("width", "height", "is_taken"),
    [(1, 2, True), (0, 2, False), (2, 0, False), (2**31 - 1, 1, True), (1, 2**31, False)],
)
def test_an_image_has_a_width_and_a_height_that_mindinsight_can_hold(
    tmp_path: Path, width: int, height: int, is_taken: bool
) -> None:
    data = np.array([b"%d" % width, b"%d" % height, b"png"], object)
    write_tb(tmp_path / "tb", _keras("i", 1, data, "images"))

    (run,) = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    found = (
        [(image.width, image.height) for _, _, image in SummaryReader(run.run_dir).images("i")]
        if is_taken
        else []
    )
    assert found == [(width, height)] * is_taken
    assert [f"got {height} x {width}" in text for text in run.problems] == [True] * (not is_taken)


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(
            TensorProto(dtype=types_pb2.DT_UINT32, uint32_val=[7]), id="a type that NumPy lacks"
        ),
        pytest.param(TensorProto(dtype=types_pb2.DT_VARIANT), id="a type that has no numbers"),
        pytest.param(
            TensorProto(dtype=types_pb2.DT_INT8, int_val=[300]),
            id="a number beyond the type",
            marks=pytest.mark.skipif(
                np.__version__ < "2", reason="this NumPy takes its lowest bits"
            ),
        ),
    ],
)
def test_a_tensor_that_tensorboard_cannot_read_is_counted_and_the_rest_imported(
    tmp_path: Path, tensor: TensorProto
) -> None:
    message = _keras("t", 1, np.ones(2, np.float32), "tensor")
    message.summary.value[0].tensor.CopyFrom(tensor)
    write_tb(tmp_path / "tb", message, _keras("loss", 1, np.float32(0.5), "scalars"))

    (run,) = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    assert (run.skipped, run.written) == ({"tensor": 1}, {"scalar": 1})


# ---- the command


def test_the_command_exports_and_imports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_demo_run(tmp_path / "run")

    there = mindsummary(
        capsys, "export", tmp_path / "run", "--to", "tensorboard", "--out", tmp_path / "tb"
    )
    back = mindsummary(capsys, "import", tmp_path / "tb", "--out", tmp_path / "mi")

    assert (there.code, back.code) == (0, 0)
    assert "1 graph, 1 hparams, 120 scalar, 2 image, 6 histogram, 1 tensor" in there.out
    assert (
        "tensorboard files do not hold them: 1 loss_landscape, 1 dataset_graph, 1 "
        "evaluation_lineage"
    ) in there.out
    assert "6 histogram, 1 hparams, 2 image, 120 scalar, 1 tensor" in back.out
    assert "not imported: 1 graph" in back.out


def test_an_import_is_told_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tb(
        tmp_path / "tb" / "a", _keras("loss", 1, 0.5, "scalars"), _keras("note", 1, "text", "text")
    )

    answer = mindsummary(capsys, "import", tmp_path / "tb", "--out", tmp_path / "mi", "--json")

    (run,) = json.loads(answer.out)["runs"]
    assert (run["source"], run["run"]) == (str(tmp_path / "tb" / "a"), str(tmp_path / "mi" / "a"))
    assert (run["written"], run["skipped"]) == ({"scalar": 1}, {"text": 1})
    assert (run["changed"], run["dropped"], run["problems"]) == ({}, {}, {})
    assert (answer.code, answer.err) == (0, "")


def test_importing_a_directory_without_event_files_gives_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = mindsummary(capsys, "import", tmp_path, "--out", tmp_path / "mi")

    assert (answer.code, "no TensorBoard event file" in answer.err) == (1, True)


def test_directories_whose_names_would_merge_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("lr/1", "lr-1"):
        write_tb(tmp_path / "tb" / folder, _keras("loss", 1, np.float32(0), "scalars"))

    answer = mindsummary(capsys, "import", tmp_path / "tb", "--out", tmp_path / "mi")

    assert (answer.code, "would both become run lr-1" in answer.err) == (1, True)
    assert not (tmp_path / "mi").exists()


def test_a_fifo_with_the_name_of_an_event_file_is_not_opened(tmp_path: Path) -> None:
    write_tb(tmp_path / "tb", _keras("loss", 1, np.float32(0.5), "scalars"))
    os.mkfifo(tmp_path / "tb" / "events.out.tfevents.2.host")

    (run,) = import_tensorboard(str(tmp_path / "tb"), str(tmp_path / "mi"))

    assert run.written == {"scalar": 1}
