from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
import PIL.Image
import pytest

from mindsummary_lightning.fileformat._proto import anf_ir_pb2
from mindsummary_lightning.values import (
    DatasetGraph,
    DataType,
    EvaluationInfo,
    Event,
    Graph,
    GraphInput,
    GraphNode,
    GraphParameter,
    Histogram,
    Image,
    LandscapeMetadata,
    LossLandscape,
    Operation,
    Points,
    Tensor,
    TensorType,
    TrainInfo,
    TupleType,
    UserDefinedInfo,
    data_type_of,
    kind_of,
)
from mindsummary_lightning.values.events import tags_of
from mindsummary_lightning.values.text import utf8_text
from mindsummary_lightning.values.whole_step import StoredModule, WholeStep


def test_a_tensor_owns_its_memory_and_nobody_can_change_it() -> None:
    mine = np.array([1.0, 2.0], np.float32)
    tensor = Tensor(mine)
    mine[0] = 9

    assert tensor.data.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        tensor.data[0] = 9


def test_an_array_that_nobody_else_can_change_is_not_copied_again() -> None:
    once = Tensor(np.ones(3)).data

    assert Tensor(once).data is once


def test_a_read_only_view_of_a_writeable_array_is_copied() -> None:
    mine = np.ones(3, np.float32)
    view = mine[:]
    view.setflags(write=False)
    tensor = Tensor(view)
    mine[0] = 9

    assert tensor.data[0] == 1


def test_a_tensor_remembers_the_dtype_its_elements_had() -> None:
    tensor = Tensor(np.array([1, 2], np.int64))

    assert (tensor.data.dtype, tensor.data_type) == (np.float32, DataType.INT64)


def test_a_dtype_without_a_number_in_the_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        TypeError, match=r"dtype must be one of bool, int8, .* for summary files, got complex64"
    ):
        data_type_of(np.dtype("complex64"))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.0, "scalar"),
        (Image(1, 1, b""), "image"),
        (Tensor(np.ones(1)), "tensor"),
        (Histogram(np.ones(1), np.ones(1), np.ones(1), 1), "histogram"),
        (LossLandscape(Points(np.ones(1), np.ones(1), np.ones((1, 1)))), "loss_landscape"),
    ],
)
def test_each_value_knows_its_plugin(value: object, kind: str) -> None:
    assert kind_of(value) == kind  # type: ignore[arg-type]


def test_values_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Event(1.0).step = 2  # type: ignore[misc]


@pytest.mark.parametrize("field", ["lefts", "widths", "counts"])
def test_a_histogram_owns_its_arrays(field: str) -> None:
    mine = {name: np.array([1, 2], np.float32) for name in ("lefts", "widths", "counts")}
    histogram = Histogram(**mine, count=3)  # type: ignore[arg-type]
    mine[field][:] = 9

    held = getattr(histogram, field)
    assert held.tolist() == [1, 2]
    assert held.dtype == (np.int64 if field == "counts" else np.float64)
    with pytest.raises(ValueError, match="read-only"):
        held[0] = 9


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_points_own_their_arrays(axis: str) -> None:
    mine = {name: np.array([1.0, 2.0]) for name in ("x", "y", "z")}
    points = Points(**mine)  # type: ignore[arg-type]
    mine[axis][:] = 9

    held = getattr(points, axis)
    assert (held.tolist(), held.dtype, held.flags.writeable) == ([1.0, 2.0], np.float32, False)


def test_a_histogram_needs_as_many_widths_and_counts_as_edges() -> None:
    with pytest.raises(
        ValueError, match=r"1-D and of the same length, not of shapes \(2,\), \(1,\) and \(2,\)"
    ):
        Histogram(np.ones(2), np.ones(1), np.ones(2), 2)
    with pytest.raises(ValueError, match=r"must be 1-D and of the same length"):
        Histogram(*(np.ones((2, 2)),) * 3, 8)


def test_custom_data_keeps_only_what_the_format_has() -> None:
    info = UserDefinedInfo(
        {"flag": True, "small": -(2**31), "big": 2**70, "nested": {"x": 1.5}, "text": "a"}
    )

    assert info.values == {
        "flag": 1,
        "small": -(2**31),
        "big": 2**70,
        "nested": {"x": 1.5},
        "text": "a",
    }
    assert type(info.values["flag"]) is int


def test_an_int_that_python_refuses_to_write_out_is_refused() -> None:
    with pytest.raises(
        ValueError,
        match="seed of UserDefinedInfo must be an int of at most 10000 bits, got 10001 bits",
    ):
        UserDefinedInfo({"seed": 2**10_000})


@pytest.mark.parametrize("values", [{1: 2}, {"a": None}, {"a": [1]}, {"a": {"b": object()}}])
def test_custom_data_of_another_kind_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="UserDefinedInfo"):
        UserDefinedInfo(values)  # type: ignore[arg-type]


def test_custom_data_is_copied() -> None:
    mine: dict[str, int | float | str] = {"a": 1}
    info = UserDefinedInfo(mine)
    mine["a"] = 2

    assert info.values == {"a": 1}


@pytest.mark.parametrize(
    ("text", "held"),
    [("abc", "abc"), ("Verlust µ 损失", "Verlust µ 损失"), ("a\ud800b", "a\\ud800b"), ("", "")],
)
def test_text_is_what_utf8_can_hold(text: str, held: str) -> None:
    assert utf8_text(text) == held


def test_lineage_made_of_undecodable_paths_holds_utf8() -> None:
    train = TrainInfo(train_dataset_path="/data/\udcff", model_path='{"ckpt": null}')
    custom = UserDefinedInfo({"k\udcff": "v\udcff"})

    assert train.train_dataset_path == "/data/\\udcff"
    assert EvaluationInfo("{}", "\udcff").valid_dataset_path == "\\udcff"
    assert custom.values == {"k\\udcff": "v\\udcff"}


@pytest.mark.parametrize(
    ("start", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"BM", "image/bmp"),
        (b"RIFF\x10\0\0\0WEBP", "image/webp"),
        (b"<svg>", "application/octet-stream"),
    ],
)
def test_the_media_type_of_an_image_is_that_of_its_bytes(start: bytes, media_type: str) -> None:
    assert Image(1, 1, start + b"rest").media_type == media_type


def test_a_tensor_is_an_array_to_numpy() -> None:
    tensor = Tensor(np.array([[1, 2]], np.int32))

    assert np.asarray(tensor) is tensor.data
    assert np.array(tensor, np.float64).dtype == np.float64
    assert np.array(tensor).flags.writeable
    assert tensor.__array__(np.int8).dtype == np.int8
    assert np.array(tensor, copy=True).tolist() == [[1.0, 2.0]]
    assert not np.shares_memory(tensor.__array__(copy=True), tensor.data)


def test_an_image_is_a_picture_to_pillow_numpy_and_notebooks() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, "PNG")
    image = Image(2, 4, file.getvalue())

    assert image.to_pil().size == (4, 2)
    assert np.asarray(image).tolist() == pixels.tolist()
    assert np.asarray(image, np.float64).dtype == image.__array__(np.float64).dtype == np.float64
    assert image._repr_png_() == file.getvalue()
    assert Image(2, 4, b"BM")._repr_png_() is None


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"])
def test_only_pictures_that_a_browser_shows_are_opened(kind: str) -> None:
    file = io.BytesIO()
    PIL.Image.new("RGB", (4, 2)).save(file, kind)
    image = Image(2, 4, file.getvalue())

    if kind in ("TIFF", "PPM"):
        with pytest.raises(PIL.UnidentifiedImageError):
            image.to_pil()
    else:
        assert image.to_pil().size == (4, 2)
        assert image.media_type == f"image/{kind.lower()}"


def test_the_edges_of_a_histogram_are_those_of_its_buckets_and_the_last_end() -> None:
    assert Histogram([0.0, 1.0, 3.0], [1.0, 2.0, 4.0], [3, 4, 5], 12).edges.tolist() == [  # type: ignore[arg-type]
        0.0,
        1.0,
        3.0,
        7.0,
    ]
    assert Histogram([], [], [], 0).edges.tolist() == []  # type: ignore[arg-type]


def _landscape(*intervals: int) -> LossLandscape:
    surface = Points(np.arange(2.0), np.arange(3.0), np.arange(6.0).reshape(3, 2))
    return LossLandscape(surface, intervals)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Tensor(np.zeros((2, 3), np.int8)), "Tensor(2 x 3, int8)"),
        (Tensor(np.array(1.0)), "Tensor(one number, float64)"),
        (Image(2, 3, b"png"), "Image(height=2, width=3, colorspace=3)"),
        (
            Histogram(np.ones(2), np.ones(2), np.ones(2), 7, min=-0.5, max=3.25),
            "Histogram(7 elements, -0.5 to 3.25, 2 buckets)",
        ),
        (
            Histogram(np.ones(0), np.ones(0), np.ones(0), 7, 7),
            "Histogram(7 elements, 0 buckets)",
        ),
        (_landscape(), "LossLandscape(2 x 3 points, loss 0 to 5)"),
        (_landscape(1, 2, 4), "LossLandscape(2 x 3 points, loss 0 to 5, path of 3)"),
        (LossLandscape(Points([], [], [])), "LossLandscape(0 x 0 points)"),  # type: ignore[arg-type]
        (
            Graph((GraphNode("1", "Add"),), "net", (GraphParameter("w"),) * 2),
            "Graph('net', 1 nodes, 2 parameters, 0 constants)",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_says_in_a_few_words_what_it_holds(value: object, text: str) -> None:
    assert repr(value) == text


def test_the_axes_of_a_landscape_are_those_of_its_surface() -> None:
    landscape = LossLandscape(_landscape().surface, np.array([3, 5]))  # type: ignore[arg-type]

    assert landscape.x.tolist() == [0.0, 1.0]
    assert landscape.y.tolist() == [0.0, 1.0, 2.0]
    assert landscape.z.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert landscape.z.dtype == np.float32
    assert landscape.intervals == (3, 5)
    assert [type(number) for number in landscape.intervals] == [int, int]


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6.0, dtype=np.float32).reshape(2, 3)),
        np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
        np.array([0, 1, 2], np.int8),
        np.arange(6, dtype=np.float32).reshape(2, 3)[::-1],
    ],
    ids=["columns first", "float64", "int8", "turned"],
)
def test_an_array_in_any_layout_is_held_row_by_row(array: np.ndarray) -> None:
    array.setflags(write=False)

    data = Tensor(array).data

    assert data.tolist() == array.tolist()
    assert (data.dtype, data.flags.c_contiguous, data.base) == (np.float32, True, None)
    assert not data.flags.writeable


def test_the_tags_of_an_event_are_those_that_mindinsight_counts() -> None:
    pairs = (("a", 1.0), ("b", Image(1, 1, b"")), ("a", Tensor(np.ones(1))))

    assert [*tags_of(pairs)] == [("scalar", "a"), ("image", "b"), ("tensor", "a")]
    assert [*tags_of(Graph(()))] == [("graph", ""), ("optimized_graph", "")]
    assert [[*tags_of(what)] for what in ("v", (), None)] == [[], [], []]


def test_the_data_types_have_the_numbers_of_the_file() -> None:
    numbers = dict(anf_ir_pb2.DataType.items())

    assert {f"DT_{kind.name}": kind.value for kind in DataType} == numbers


def test_every_dtype_of_the_format_has_its_number() -> None:
    names = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
             "float16", "float32", "float64"]  # fmt: skip

    assert [int(data_type_of(np.dtype(name))) for name in names] == [*range(1, 13)]
    assert data_type_of(np.dtype(">f4")) is DataType.FLOAT32
    for name in ("complex128", "longdouble", "O", "U3", "M8[s]"):
        with pytest.raises(TypeError, match="dtype must be one of bool, int8"):
            data_type_of(np.dtype(name))


@pytest.mark.parametrize(
    ("value", "defaults"),
    [
        (Event(1.5), {"wall_time": 1.5, "step": 0, "what": ()}),
        (Image(2, 3, b"x"), {"height": 2, "width": 3, "encoded": b"x", "colorspace": 3}),
        (LandscapeMetadata(), {"decomposition": "", "unit": "", "step_per_epoch": 0}),
        (TupleType(), {"elements": (), "is_list": False}),
        (TensorType(DataType.INT8), {"elem_type": DataType.INT8, "shape": ()}),
        (GraphInput("a"), {"name": "a", "is_control": False}),
        (
            GraphNode("1", "Add"),
            {
                "name": "1",
                "op_type": "Add",
                "scope": "",
                "full_name": "",
                "inputs": (),
                "attributes": (),
                "output_type": None,
                "output_i": 0,
                "instance_name": "",
            },
        ),
        (Operation(), {"parameter": {}, "size": (), "weights": ()}),
        (DatasetGraph(), {"parameter": {}, "operations": (), "sampler": None, "children": ()}),
        (TrainInfo(), dict.fromkeys(TrainInfo.__slots__)),
        (
            EvaluationInfo(),
            {"metric": "{}", "valid_dataset_path": None, "valid_dataset_size": None},
        ),
        (
            StoredModule("a", "Net"),
            {"name": "a", "kind": "Net", "is_training": True, "settings": {}},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_given_has_the_value_of_nothing(
    value: Any, defaults: dict[str, object]
) -> None:
    names = [field.name for field in dataclasses.fields(value)]

    assert {name: getattr(value, name) for name in names} == defaults


def test_a_histogram_without_more_facts_and_a_step_without_parts_are_plain() -> None:
    histogram = Histogram(np.empty(0), np.empty(0), np.empty(0), 4)
    step = WholeStep("torch", "2.13.0", 1)

    assert (histogram.nan_count, histogram.pos_inf_count, histogram.neg_inf_count) == (0, 0, 0)
    assert (histogram.min, histogram.max, histogram.sum) == (None, None, None)
    assert (step.precision, step.device, step.loss_scale) == ("float32", "cpu", 1.0)
    assert (step.modules, step.calls, step.batches, step.random_state) == ((), (), (), None)
