"""Messages of the ``tensorboard`` package, imported only when something is converted; a run's graph and settings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from mindsummary_lightning.errors import missing_packages
from mindsummary_lightning.reading.lineage_text import lineage_values
from mindsummary_lightning.reading.series import RunLineage
from mindsummary_lightning.values import Graph, TensorType
from mindsummary_lightning.values.lineage_info import EXACT_MAX

_SETTINGS = {
    "network",
    "optimizer",
    "learning_rate",
    "loss_function",
    "epoch",
    "batch_size",
    "device_num",
}


def messages() -> SimpleNamespace:
    """The message classes and tensor functions that export and import need.

    Raises:
        ImportError: the ``tensorboard`` package is missing.
    """
    try:
        from google.protobuf.message import DecodeError
        from tensorboard.compat.proto import event_pb2, graph_pb2, summary_pb2, types_pb2
        from tensorboard.plugins.hparams import plugin_data_pb2
        from tensorboard.util import tensor_util
    except ImportError as error:
        raise missing_packages("conversion to and from TensorBoard", "tensorboard") from error
    return SimpleNamespace(
        DecodeError=DecodeError,
        Event=event_pb2.Event,
        START=event_pb2.SessionLog.START,
        GraphDef=graph_pb2.GraphDef,
        Summary=summary_pb2.Summary,
        HistogramProto=summary_pb2.HistogramProto,
        BFLOAT16=types_pb2.DT_BFLOAT16,
        HALF=types_pb2.DT_HALF,
        UINT8=types_pb2.DT_UINT8,
        HParams=plugin_data_pb2.HParamsPluginData,
        make_tensor_proto=tensor_util.make_tensor_proto,
        make_ndarray=tensor_util.make_ndarray,
    )


def graph_def(tb: SimpleNamespace, graph: Graph) -> Any:
    """The graph with its nodes, edges, parameters and constants, and the shapes of tensors.

    An edge from a node that is not in the graph is skipped, as MindInsight does.
    """
    names = {node.name: node.full_name or node.name for node in graph.nodes}
    # of the first use
    scopes = {edge.name: node.scope for node in reversed(graph.nodes) for edge in node.inputs}
    names.update(
        (one.name, _in_its_module(one.name, scopes.get(one.name, ""))) for one in graph.parameters
    )
    names.update((constant.name, constant.name) for constant in graph.constants)
    found = tb.GraphDef()
    for parameter in graph.parameters:
        _add_shape(found.node.add(name=names[parameter.name], op="Parameter"), parameter.type)
    for constant in graph.constants:
        found.node.add(name=constant.name, op="Const")
    for node in graph.nodes:
        # In a GraphDef, edges of control come last.
        edges = sorted(
            (edge for edge in node.inputs if edge.name in names), key=lambda edge: edge.is_control
        )
        sources = [
            f"^{names[edge.name]}" if edge.is_control else names[edge.name] for edge in edges
        ]
        _add_shape(
            found.node.add(name=names[node.name], op=node.op_type, input=sources), node.output_type
        )
    return found


def session_start(
    tb: SimpleNamespace, lineage: RunLineage, last: Mapping[str, float]
) -> tuple[Any, int, Mapping[str, int]]:
    """Hyper-parameters, optimizer and the like as a value of the plugin HPARAMS; ``None`` where there are none.

    The plugin takes a run's results from its scalars, by their names there, so those of the lineage
    are left out, as is what the ``last`` value of a scalar with its name is: the second part of the
    answer says how many. The third is the number of those that became text, by the reason.
    """
    content = tb.HParams()
    left_out = 0
    texts: Counter[str] = Counter()
    results = lineage_values(RunLineage(train=lineage.train)).keys() - _SETTINGS
    for name, value in lineage_values(
        RunLineage(train=lineage.train, custom=lineage.custom)
    ).items():
        if name in results or name == "final_learning_rate" or last.get(name) == value:
            left_out += 1
            continue
        reason = _why_text(value)
        if isinstance(value, (int, float)) and not reason:
            content.session_start_info.hparams[name].number_value = value
        else:
            content.session_start_info.hparams[name].string_value = str(value)
            texts.update([reason] if reason else [])
    if not content.session_start_info.hparams:
        return None, left_out, texts
    message = tb.Summary.Value(tag="_hparams_/session_start_info")
    message.metadata.plugin_data.plugin_name = "hparams"
    message.metadata.plugin_data.content = content.SerializeToString()
    return message, left_out, texts


def _why_text(value: Any) -> str:
    """Why a number is written as text; ``""`` if it is not."""
    if isinstance(value, float) and not math.isfinite(value):
        return "hparams: not finite, so text"
    if isinstance(value, int) and abs(value) > EXACT_MAX:
        return "hparams: a whole number beyond 2^53, so text"
    return ""


def _in_its_module(name: str, scope: str) -> str:
    """A weight inside of the module that has it, as TensorBoard draws it; everything else stays at the top."""
    path = "".join(f"{part.rpartition('-')[0]}." for part in scope.split("/"))
    return f"{scope}/{name.removeprefix(path)}" if name.startswith(path) else name


def _add_shape(message: Any, kind: object) -> None:
    if isinstance(kind, TensorType):
        shape = message.attr["_output_shapes"].list.shape.add()
        for length in kind.shape:
            shape.dim.add(size=length)
