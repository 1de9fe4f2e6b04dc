"""Encode and decode computational graphs as protobuf messages (``GraphProto``).

Such a message is the content of ``Event.graph_def`` and of a ``.pb`` file.

Attributes and constants are also decoded in protobuf's text form, in which MindInsight's pages show
them. Two values with the same meaning (an ``int32`` 3 and an ``int64`` 3) may have different texts.
"""

from __future__ import annotations

import functools
from typing import TypeVar, cast

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from mindsummary_lightning.fileformat._proto import anf_ir_pb2, summary_pb2
from mindsummary_lightning.fileformat.wire import text
from mindsummary_lightning.values import (
    Attribute,
    DataType,
    Graph,
    GraphConstant,
    GraphInput,
    GraphNode,
    GraphOutput,
    GraphParameter,
    GraphTexts,
    TensorType,
    TupleType,
)
from mindsummary_lightning.values.graph_nodes import AttributeValue, GraphType

_Parsed = TypeVar("_Parsed", bound=Message)

MAX_VALUE_BYTES = 1024  # a serialized value above it is not shown
_INT64_MIN, _INT64_MAX, _UINT64_MAX = -(2**63), 2**63 - 1, 2**64 - 1


def parsed(kind: type[_Parsed], payload: bytes, what: str) -> _Parsed:
    """Parse some bytes as a protobuf message.

    Raises:
        ValueError: the bytes are not such a message; the error says that they are not a ``what``.
    """
    try:
        return kind.FromString(payload)
    except DecodeError as error:
        raise ValueError(f"payload of {len(payload)} bytes is not a {what}: {error}") from error


def encode_graph(graph: Graph) -> bytes:
    """Encode a computational graph as the bytes of a ``GraphProto``."""
    message = anf_ir_pb2.GraphProto(name=graph.name)
    for node in graph.nodes:
        _fill_node(message.node.add(), node)
    for parameter in graph.parameters:
        _fill_typed(message.parameters.add(), parameter)
    for output in graph.outputs:
        _fill_typed(message.outputs.add(), output)
    for constant in graph.constants:
        entry = message.const_vals.add(key=constant.name)
        _fill_value(entry.value, constant.value)
    return message.SerializeToString()


def decode_graph(message: anf_ir_pb2.GraphProto) -> Graph:
    """Convert a ``GraphProto`` to a ``Graph``."""
    return Graph(
        nodes=tuple(_node(node) for node in message.node),
        name=text(message.name),
        parameters=tuple(
            GraphParameter(text(entry.name), _type_of(entry)) for entry in message.parameters
        ),
        constants=tuple(
            GraphConstant(text(entry.key), _value(entry.value)) for entry in message.const_vals
        ),
        outputs=tuple(GraphOutput(text(entry.name), _type_of(entry)) for entry in message.outputs),
    )


def _fill_node(message: anf_ir_pb2.NodeProto, node: GraphNode) -> None:
    message.name = node.name
    message.op_type = node.op_type
    message.scope = node.scope
    message.full_name = node.full_name
    for entry in node.inputs:
        edge = message.input.add(name=entry.name)
        edge.type = (
            anf_ir_pb2.InputProto.CONTROL_EDGE
            if entry.is_control
            else anf_ir_pb2.InputProto.DATA_EDGE
        )
    for attribute in node.attributes:
        _fill_value(message.attribute.add(name=attribute.name).value, attribute.value)
    if node.output_type is not None:
        _fill_type(message.output_type, node.output_type)
    message.output_i = node.output_i
    if node.instance_name:
        message.instance_name = node.instance_name


def _node(message: anf_ir_pb2.NodeProto) -> GraphNode:
    control = anf_ir_pb2.InputProto.CONTROL_EDGE
    return GraphNode(
        name=text(message.name),
        op_type=text(message.op_type),
        scope=text(message.scope),
        full_name=text(message.full_name),
        inputs=tuple(GraphInput(text(edge.name), edge.type == control) for edge in message.input),
        attributes=tuple(
            Attribute(text(entry.name), _value(entry.value)) for entry in message.attribute
        ),
        output_type=_type(message.output_type) if message.HasField("output_type") else None,
        output_i=message.output_i,
        instance_name=text(message.instance_name),
    )


def _fill_typed(
    message: anf_ir_pb2.ParameterProto | anf_ir_pb2.OutputProto, value: GraphParameter | GraphOutput
) -> None:
    message.name = value.name
    if value.type is not None:
        _fill_type(message.type, value.type)


def _type_of(message: anf_ir_pb2.ParameterProto | anf_ir_pb2.OutputProto) -> GraphType | None:
    if message.HasField("type"):
        return _type(message.type)
    return None


def _fill_type(message: anf_ir_pb2.TypeProto, value: GraphType) -> None:
    if isinstance(value, TensorType):
        message.data_type = anf_ir_pb2.DT_TENSOR
        message.tensor_type.elem_type = _number(value.elem_type)
        message.tensor_type.shape.SetInParent()
        for length in value.shape:
            message.tensor_type.shape.dim.add(size=length)
    elif isinstance(value, TupleType):
        message.data_type = anf_ir_pb2.DT_LIST if value.is_list else anf_ir_pb2.DT_TUPLE
        message.sequence_type.SetInParent()
        for element in value.elements:
            _fill_type(message.sequence_type.elem_types.add(), element)
    else:
        message.data_type = _number(value)


def _number(data_type: DataType) -> anf_ir_pb2.DataType:
    return cast("anf_ir_pb2.DataType", int(data_type))  # the two enums have the same numbers


def _type(message: anf_ir_pb2.TypeProto) -> GraphType:
    kind = message.WhichOneof("value")
    # which counts, whatever else is there
    stated = message.data_type if message.HasField("data_type") else None
    if kind == "tensor_type" and stated in (None, anf_ir_pb2.DT_TENSOR):
        shape = tuple(dimension.size for dimension in message.tensor_type.shape.dim)
        return TensorType(DataType(message.tensor_type.elem_type), shape)
    if kind == "sequence_type" and stated in (None, anf_ir_pb2.DT_TUPLE, anf_ir_pb2.DT_LIST):
        elements = tuple(_type(element) for element in message.sequence_type.elem_types)
        return TupleType(elements, is_list=message.data_type == anf_ir_pb2.DT_LIST)
    return DataType(message.data_type)


def _fill_value(message: anf_ir_pb2.ValueProto, value: AttributeValue) -> None:
    if value is None:
        message.dtype = anf_ir_pb2.DT_NONE
    elif isinstance(value, (DataType, TensorType)):
        message.dtype = anf_ir_pb2.DT_TYPE
        _fill_type(message.type_val, value)
    elif isinstance(value, (bool, int, float)):
        _fill_number(message, value)
    elif isinstance(value, tuple):
        message.dtype = anf_ir_pb2.DT_TUPLE
        for element in value:
            _fill_value(message.values.add(), element)
    elif isinstance(value, dict):
        message.dtype = anf_ir_pb2.DT_DICT
        for key, element in value.items():
            _fill_value(message.dict_val.add(key=key).value, element)
    else:
        message.dtype, message.str_val = anf_ir_pb2.DT_STRING, str(value)


def _fill_number(message: anf_ir_pb2.ValueProto, value: int | float) -> None:
    """Store a number in a message; an int beyond 64 bits is stored as text."""
    if isinstance(value, bool):
        message.dtype, message.bool_val = anf_ir_pb2.DT_BOOL, value
    elif isinstance(value, float):
        message.dtype, message.double_val = anf_ir_pb2.DT_FLOAT64, value
    elif _INT64_MIN <= value <= _INT64_MAX:
        message.dtype, message.int_val = anf_ir_pb2.DT_INT64, value
    elif 0 <= value <= _UINT64_MAX:
        message.dtype, message.uint_val = anf_ir_pb2.DT_UINT64, value
    else:
        message.dtype, message.str_val = anf_ir_pb2.DT_STRING, str(value)


_ONE_OF_A_KIND = ("bool_val", "int_val", "uint_val", "float_val", "double_val", "str_val")
_MANY_OF_A_KIND = ("bool_vals", "int_vals", "uint_vals", "float_vals", "double_vals", "str_vals")


def _value(message: anf_ir_pb2.ValueProto) -> AttributeValue:
    for field in _ONE_OF_A_KIND:
        if message.HasField(field):
            plain: AttributeValue = text(getattr(message, field))
            return plain
    for field in _MANY_OF_A_KIND:
        if len(getattr(message, field)):
            return tuple(map(text, getattr(message, field)))
    if message.HasField("type_val"):
        value = _type(message.type_val)
        if isinstance(value, (DataType, TensorType)):
            return value
        return DataType.TUPLE
    # MindSpore's constants; only their type matters to a reader of graphs
    if message.HasField("tensor_val"):
        return TensorType(DataType(message.tensor_val.data_type), tuple(message.tensor_val.dims))
    return _container(message)


def _container(message: anf_ir_pb2.ValueProto) -> AttributeValue:
    """Return the tuple or dict in a message; ``None`` if it contains neither."""
    is_sequence = message.dtype in (anf_ir_pb2.DT_TUPLE, anf_ir_pb2.DT_LIST)
    if is_sequence or len(message.values):
        return tuple(_value(element) for element in message.values)
    if message.dtype == anf_ir_pb2.DT_DICT or len(message.dict_val):
        return {text(entry.key): _value(entry.value) for entry in message.dict_val}
    return None


def decode_graph_event(payload: bytes) -> tuple[Graph, GraphTexts]:
    """Decode the computational graph in a record of a summary file.

    Returns:
        The graph, and the texts of its attributes and constants.

    Raises:
        ValueError: the bytes are not a summary event, or a text in it is not UTF-8.
    """
    message = parsed(summary_pb2.Event, payload, "summary event")
    return decode_graph(message.graph_def), _texts(message.graph_def)


def decode_model(payload: bytes) -> tuple[Graph, GraphTexts]:
    """Decode the computational graph of a ``.pb`` file that MindSpore wrote.

    Returns:
        The graph, and the texts of its attributes and constants.

    Raises:
        ValueError: the bytes are not such a file, or a text in it is not UTF-8.
    """
    message = parsed(anf_ir_pb2.ModelProto, payload, "graph of MindSpore")
    return decode_graph(message.graph), _texts(message.graph)


def _attribute_texts(node: anf_ir_pb2.NodeProto) -> dict[str, str]:
    return {
        text(attribute.name): _value_text(attribute.value.SerializeToString())
        for attribute in node.attribute
        if attribute.value.ByteSize() <= MAX_VALUE_BYTES
    }


def _texts(message: anf_ir_pb2.GraphProto) -> GraphTexts:
    return GraphTexts(
        attributes=tuple(map(_attribute_texts, message.node)),
        constants={text(entry.key): _constant_text(entry.value) for entry in message.const_vals},
    )


def _constant_text(value: anf_ir_pb2.ValueProto) -> str:
    if value.ByteSize() > MAX_VALUE_BYTES:
        return f"dtype: {anf_ir_pb2.DataType.Name(value.dtype)}"
    return _value_text(value.SerializeToString())


@functools.lru_cache(maxsize=4096)  # the nodes of a large network share few different values
def _value_text(serialized: bytes) -> str:
    # Explicit, as the default of as_utf8 differs between protobuf's versions; MindInsight escapes
    # what is not ASCII.
    return str(
        text_format.MessageToString(anf_ir_pb2.ValueProto.FromString(serialized), as_utf8=False)
    )
