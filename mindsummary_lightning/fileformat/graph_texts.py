"""Attributes and constants of a recorded graph in protobuf's text form, as MindInsight's pages show them.

:mod:`~mindsummary_lightning.fileformat.graph_codec` gives their meaning; two values that mean the same (an ``int32`` 3
and an ``int64`` 3) may be spelled differently.
"""

from __future__ import annotations

import functools

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from mindsummary_lightning.fileformat._proto import anf_ir_pb2, summary_pb2
from mindsummary_lightning.fileformat.graph_codec import decode_graph
from mindsummary_lightning.fileformat.wire import text
from mindsummary_lightning.values import Graph, GraphTexts

MAX_VALUE_BYTES = 1024  # a serialized value above it is not shown


def decode_graph_event(payload: bytes) -> tuple[Graph, GraphTexts]:
    """The graph in a record of a summary file.

    Raises:
        ValueError: the payload is not an event, or holds text that is not UTF-8.
    """
    try:
        message = summary_pb2.Event.FromString(payload)
    except DecodeError as error:
        raise ValueError(f"payload of {len(payload)} bytes is not a summary event: {error}") from error
    return decode_graph(message.graph_def), _texts(message.graph_def)


def decode_model(payload: bytes) -> tuple[Graph, GraphTexts]:
    """The graph in the content of a ``.pb`` file that MindSpore wrote.

    Raises:
        ValueError: the content is not a ModelProto, or holds text that is not UTF-8.
    """
    try:
        message = anf_ir_pb2.ModelProto.FromString(payload)
    except DecodeError as error:
        raise ValueError(f"{len(payload)} bytes are not a graph of MindSpore: {error}") from error
    return decode_graph(message.graph), _texts(message.graph)


def _texts(message: anf_ir_pb2.GraphProto) -> GraphTexts:
    return GraphTexts(
        attributes=tuple(
            {
                text(attribute.name): _value_text(attribute.value.SerializeToString())
                for attribute in node.attribute
                if attribute.value.ByteSize() <= MAX_VALUE_BYTES
            }
            for node in message.node
        ),
        constants={text(entry.key): _constant_text(entry.value) for entry in message.const_vals},
    )


def _constant_text(value: anf_ir_pb2.ValueProto) -> str:
    if value.ByteSize() > MAX_VALUE_BYTES:
        return f"dtype: {anf_ir_pb2.DataType.Name(value.dtype)}"
    return _value_text(value.SerializeToString())


@functools.lru_cache(maxsize=4096)  # the nodes of a large network share few different values
def _value_text(serialized: bytes) -> str:
    # Explicit, as the default of as_utf8 differs between protobuf's versions; MindInsight escapes what is not ASCII.
    return str(text_format.MessageToString(anf_ir_pb2.ValueProto.FromString(serialized), as_utf8=False))
