from __future__ import annotations

import pytest

from mindsummary_lightning.fileformat._proto import anf_ir_pb2, summary_pb2
from mindsummary_lightning.fileformat.graph_texts import decode_graph_event, decode_model


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

    _, texts = decode_model(anf_ir_pb2.ModelProto(graph=graph).SerializeToString())

    assert (fits.ByteSize(), large.ByteSize()) == (1024, 1025)
    assert list(texts.attributes[0]) == ["fits"]
    assert texts.constants == {"cst1": "dtype: DT_STRING"}


def test_a_model_file_holds_the_graph_of_an_event() -> None:
    graph = graph_with(axis=anf_ir_pb2.ValueProto(int_val=1))
    event = summary_pb2.Event(wall_time=1.0, graph_def=graph).SerializeToString()

    assert decode_model(anf_ir_pb2.ModelProto(graph=graph).SerializeToString()) == decode_graph_event(event)


def test_bytes_that_are_not_a_graph_are_refused() -> None:
    with pytest.raises(ValueError, match="not a summary event"):
        decode_graph_event(b"\xff" * 9)
    with pytest.raises(ValueError, match="not a graph of MindSpore"):
        decode_model(b"\xff" * 9)
