from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from mindsummary_lightning.fileformat._proto import anf_ir_pb2, summary_pb2
from mindsummary_lightning.fileformat.graph_codec import (
    decode_graph,
    decode_graph_event,
    decode_model,
    encode_graph,
)
from mindsummary_lightning.values import (
    Attribute,
    DataType,
    Graph,
    GraphConstant,
    GraphInput,
    GraphNode,
    GraphOutput,
    GraphParameter,
    TensorType,
    TupleType,
)
from tests.fileformat import strategies as draw
from tests.fileformat.sameness import same


def parsed(graph: Graph) -> anf_ir_pb2.GraphProto:
    return anf_ir_pb2.GraphProto.FromString(encode_graph(graph))


@given(draw.graphs)
def test_a_graph_comes_back_as_it_went(graph: Graph) -> None:
    assert same(decode_graph(parsed(graph)), graph)


def test_every_part_of_a_graph_comes_back_in_its_place() -> None:
    graph = Graph(
        nodes=(
            GraphNode(
                "2",
                "Add",
                "net/a",
                "net/a/Add-op2",
                (GraphInput("1"), GraphInput("0", True), GraphInput("w")),
                (
                    Attribute("axis", -1),
                    Attribute("flag", False),
                    Attribute("ratio", 0.5),
                    Attribute("mode", "same"),
                    Attribute("none", None),
                    Attribute("type", DataType.INT8),
                    Attribute("tensor", TensorType(DataType.FLOAT16, (2, -1))),
                    Attribute("nested", (1, (2.0, "a"), {"b": True, "c": ()})),
                ),
                TupleType(
                    (DataType.BOOL, TupleType((TensorType(DataType.INT64, (3,)),), is_list=True))
                ),
                1,
                "the name",
            ),
            GraphNode("3", "ReLU", output_type=TupleType(is_list=True)),
        ),
        name="net",
        parameters=(GraphParameter("w", TensorType(DataType.FLOAT32, (4, 5))), GraphParameter("x")),
        constants=(GraphConstant("cst1", 7), GraphConstant("cst2")),
        outputs=(GraphOutput("2", DataType.STRING), GraphOutput("3")),
    )

    assert decode_graph(parsed(graph)) == graph


@pytest.mark.parametrize(
    ("field", "content", "value"),
    [
        ("bool_val", False, False),
        ("int_val", 0, 0),
        ("uint_val", 2**63, 2**63),
        ("float_val", 0.5, 0.5),
        ("double_val", 0.0, 0.0),
        ("str_val", "", ""),
        ("bool_vals", [True, False], (True, False)),
        ("int_vals", [-1, 2], (-1, 2)),
        ("uint_vals", [2**63, 1], (2**63, 1)),
        ("float_vals", [0.5, 1.5], (0.5, 1.5)),
        ("double_vals", [0.1], (0.1,)),
        ("str_vals", ["b", "a"], ("b", "a")),
    ],
)
def test_a_value_in_any_field_is_read(field: str, content: Any, value: Any) -> None:
    message = anf_ir_pb2.GraphProto()
    message.const_vals.add(key="c").value.MergeFrom(anf_ir_pb2.ValueProto(**{field: content}))

    (constant,) = decode_graph(message).constants

    assert (constant.value, type(constant.value)) == (value, type(value))


def test_a_container_is_told_by_its_type_or_by_its_parts() -> None:
    one, entry = anf_ir_pb2.ValueProto(int_val=1), anf_ir_pb2.NamedValueProto(key="k")
    entry.value.int_val = 2
    values = [
        anf_ir_pb2.ValueProto(dtype=anf_ir_pb2.DT_LIST),
        anf_ir_pb2.ValueProto(dtype=anf_ir_pb2.DT_TUPLE, values=[one]),
        anf_ir_pb2.ValueProto(values=[one, one]),
        anf_ir_pb2.ValueProto(dtype=anf_ir_pb2.DT_DICT),
        anf_ir_pb2.ValueProto(dict_val=[entry]),
        anf_ir_pb2.ValueProto(dtype=anf_ir_pb2.DT_NONE),
        anf_ir_pb2.ValueProto(),
        anf_ir_pb2.ValueProto(type_val=anf_ir_pb2.TypeProto(data_type=anf_ir_pb2.DT_INT8)),
        anf_ir_pb2.ValueProto(
            type_val=anf_ir_pb2.TypeProto(sequence_type=anf_ir_pb2.TypeProto.Sequence())
        ),
    ]
    message = anf_ir_pb2.GraphProto()
    for value in values:
        message.const_vals.add(key="c", value=value)

    found = [constant.value for constant in decode_graph(message).constants]

    assert found == [
        (), (1,), (1, 1), {}, {"k": 2}, None, None, DataType.INT8, DataType.TUPLE
    ]  # fmt: skip


def test_a_type_that_states_nothing_is_undefined() -> None:
    message = anf_ir_pb2.GraphProto()
    message.node.add(name="1").output_type.SetInParent()
    message.node.add(name="2")

    assert [node.output_type for node in decode_graph(message).nodes] == [DataType.UNDEFINED, None]


def test_a_control_edge_is_told_from_a_data_edge() -> None:
    node = GraphNode("2", "Add", inputs=(GraphInput("0"), GraphInput("1", is_control=True)))

    assert [edge.type for edge in parsed(Graph((node,))).node[0].input] == [0, 1]


def test_a_tensor_type_says_element_type_and_shape() -> None:
    node = GraphNode("1", "Conv2D", output_type=TensorType(DataType.FLOAT32, (-1, 3, 224)))
    written = parsed(Graph((node,))).node[0].output_type

    assert (written.data_type, written.tensor_type.elem_type) == (DataType.TENSOR, DataType.FLOAT32)
    assert [dimension.size for dimension in written.tensor_type.shape.dim] == [-1, 3, 224]


def test_a_scalar_tensor_has_a_shape_without_dimensions() -> None:
    written = (
        parsed(Graph((GraphNode("1", "Sum", output_type=TensorType(DataType.FLOAT32)),)))
        .node[0]
        .output_type
    )

    assert written.tensor_type.HasField("shape")


@pytest.mark.parametrize(
    "beside", [TensorType(DataType.FLOAT32, (2, 3)), TupleType((DataType.INT32,))], ids=str
)
def test_the_stated_type_counts_and_no_other_type_beside_it(beside: TensorType | TupleType) -> None:
    message = parsed(Graph((GraphNode("1", "Print", output_type=beside),)))
    message.node[0].output_type.data_type = int(DataType.STRING)
    assert decode_graph(message).nodes[0].output_type == DataType.STRING

    message.node[0].output_type.ClearField("data_type")
    assert decode_graph(message).nodes[0].output_type == beside


@pytest.mark.parametrize(
    ("number", "field"),
    [
        (-(2**63), "int_val"),
        (2**63 - 1, "int_val"),
        (2**63, "uint_val"),
        (2**64 - 1, "uint_val"),
    ],
)
def test_an_integer_of_64_bits_stays_a_number(number: int, field: str) -> None:
    message = parsed(Graph((), constants=(GraphConstant("c", number),)))
    (constant,) = decode_graph(message).constants

    assert constant.value == number
    assert getattr(message.const_vals[0].value, field) == number


@pytest.mark.parametrize("number", [-(2**63) - 1, 2**64, 10**40])
def test_an_integer_beyond_64_bits_is_kept_as_text(number: int) -> None:
    (constant,) = decode_graph(parsed(Graph((), constants=(GraphConstant("c", number),)))).constants

    assert constant.value == str(number)


def test_each_value_states_its_type() -> None:
    types = {
        "DT_NONE": None,
        "DT_BOOL": True,
        "DT_INT64": 1,
        "DT_UINT64": 2**63,
        "DT_FLOAT64": 0.5,
        "DT_STRING": "x",
        "DT_TUPLE": (1, 2),
        "DT_DICT": {"a": 1},
    }
    values = [*types.items(), ("DT_TYPE", DataType.INT8), ("DT_TYPE", TensorType(DataType.BOOL))]
    constants = tuple(GraphConstant(f"c{at}", value) for at, (_, value) in enumerate(values))
    message = parsed(Graph((), constants=constants))

    stated = [anf_ir_pb2.DataType.Name(each.value.dtype) for each in message.const_vals]
    assert stated == [name for name, _ in values]


def test_fields_that_only_mindspore_writes_are_read() -> None:
    message = anf_ir_pb2.GraphProto()
    value = message.const_vals.add(key="c").value
    value.dtype = anf_ir_pb2.DT_INTS64
    value.int_vals.extend([1, 2])
    weight = message.const_vals.add(key="w").value
    weight.tensor_val.data_type = anf_ir_pb2.DT_FLOAT16
    weight.tensor_val.dims.extend([2, 2])

    constants = decode_graph(message).constants

    assert [constant.value for constant in constants] == [
        (1, 2),
        TensorType(DataType.FLOAT16, (2, 2)),
    ]


def graph_with(**attributes: anf_ir_pb2.ValueProto) -> anf_ir_pb2.GraphProto:
    graph = anf_ir_pb2.GraphProto()
    node = graph.node.add(name="1", op_type="Add")
    for name, value in attributes.items():
        node.attribute.add(name=name, value=value)
    return graph


def test_an_attribute_is_spelled_as_protobuf_does() -> None:
    number = anf_ir_pb2.ValueProto(dtype=anf_ir_pb2.DT_INT32, int_val=3)
    text = anf_ir_pb2.ValueProto(dtype=anf_ir_pb2.DT_STRING, str_val='größe "x"')
    event = summary_pb2.Event(wall_time=1.0, graph_def=graph_with(axis=number, mode=text))

    _, texts = decode_graph_event(event.SerializeToString())

    assert texts.attributes == (
        {
            "axis": "dtype: DT_INT32\nint_val: 3\n",
            "mode": 'dtype: DT_STRING\nstr_val: "gr\\303\\266\\303\\237e \\"x\\""\n',
        },
    )


def test_an_attribute_above_1024_bytes_is_missing_and_a_constant_keeps_its_type() -> None:
    fits = anf_ir_pb2.ValueProto(str_val="x" * 1021)
    large = anf_ir_pb2.ValueProto(dtype=anf_ir_pb2.DT_STRING, str_val="x" * 1020)
    graph = graph_with(fits=fits, large=large)
    graph.const_vals.add(key="cst1", value=large)
    graph.const_vals.add(key="cst2", value=fits)

    _, texts = decode_model(anf_ir_pb2.ModelProto(graph=graph).SerializeToString())

    assert (fits.ByteSize(), large.ByteSize()) == (1024, 1025)
    assert list(texts.attributes[0]) == ["fits"]
    text = f'str_val: "{"x" * 1021}"\n'
    assert texts.constants == {"cst1": "dtype: DT_STRING", "cst2": text}


def test_a_model_file_holds_the_graph_of_an_event() -> None:
    graph = graph_with(axis=anf_ir_pb2.ValueProto(int_val=1))
    event = summary_pb2.Event(wall_time=1.0, graph_def=graph).SerializeToString()

    assert decode_model(
        anf_ir_pb2.ModelProto(graph=graph).SerializeToString()
    ) == decode_graph_event(event)


def test_bytes_that_are_not_a_graph_are_refused() -> None:
    with pytest.raises(ValueError, match="not a summary event"):
        decode_graph_event(b"\xff" * 9)
    with pytest.raises(ValueError, match="not a graph of MindSpore"):
        decode_model(b"\xff" * 9)
