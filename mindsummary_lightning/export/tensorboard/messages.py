"""Encode a run's graph and settings as protobuf messages of TensorBoard.

The ``tensorboard`` package is imported only when something is converted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from mindsummary_lightning.errors import missing_packages
from mindsummary_lightning.reading.lineage_text import RunLineage, lineage_values
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
    """Import TensorBoard's message classes and tensor functions.

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
    """Encode a recorded graph as TensorBoard's ``GraphDef``.

    It has nodes, edges, parameters, constants and shapes. An edge from a node that is not in the
    graph is skipped, as MindInsight does.
    """
    names = _graph_names(graph)
    found = tb.GraphDef()
    for parameter in graph.parameters:
        _add_shape(found.node.add(name=names[parameter.name], op="Parameter"), parameter.type)
    for constant in graph.constants:
        found.node.add(name=constant.name, op="Const")
    for node in graph.nodes:
        # In a GraphDef, edges of control come last.
        data: list[str] = []
        control: list[str] = []
        for edge in node.inputs:
            name = names.get(edge.name)
            if name is None:
                continue
            if edge.is_control:
                control.append(f"^{name}")
            else:
                data.append(name)
        added = found.node.add(name=names[node.name], op=node.op_type, input=data + control)
        _add_shape(added, node.output_type)
    return found


def _graph_names(graph: Graph) -> dict[str, str]:
    """Return the names that nodes, parameters and constants have in TensorBoard."""
    scopes: dict[str, str] = {}
    for node in reversed(graph.nodes):  # the scope of the first use remains
        for edge in node.inputs:
            scopes[edge.name] = node.scope
    names = {node.name: node.full_name or node.name for node in graph.nodes}
    for parameter in graph.parameters:
        names[parameter.name] = _in_its_module(parameter.name, scopes.get(parameter.name, ""))
    for constant in graph.constants:
        names[constant.name] = constant.name
    return names


@dataclass(frozen=True)
class SessionStart:
    """The settings of a run as a message for TensorBoard's HPARAMS page, with counts.

    Attributes:
        message: the ``Summary.Value``; ``None`` if there are no settings.
        left_out: number of results left out, because the page takes them from the run's scalars.
        texts: number of settings that became text, by reason.
    """

    message: Any
    left_out: int
    texts: Mapping[str, int]


def session_start(
    tb: SimpleNamespace, lineage: RunLineage, last: Mapping[str, float]
) -> SessionStart:
    """Encode the settings of a run for TensorBoard's HPARAMS page.

    The page takes a run's results from its scalars, by their names there. The results of the
    lineage are therefore left out, and so is a value that equals the ``last`` value of the scalar
    with its name.
    """
    content = tb.HParams()
    left_out = 0
    texts: Counter[str] = Counter()
    results = lineage_values(RunLineage(train=lineage.train)).keys() - _SETTINGS
    settings = lineage_values(RunLineage(train=lineage.train, custom=lineage.custom))
    for name, value in settings.items():
        if name in results or name == "final_learning_rate" or last.get(name) == value:
            left_out += 1
            continue
        reason = _why_text(value)
        if reason:
            texts[reason] += 1
        if isinstance(value, (int, float)) and not reason:
            content.session_start_info.hparams[name].number_value = value
        else:
            content.session_start_info.hparams[name].string_value = str(value)
    if not content.session_start_info.hparams:
        return SessionStart(None, left_out, texts)
    message = tb.Summary.Value(tag="_hparams_/session_start_info")
    message.metadata.plugin_data.plugin_name = "hparams"
    message.metadata.plugin_data.content = content.SerializeToString()
    return SessionStart(message, left_out, texts)


def _why_text(value: Any) -> str:
    """Return why a number must be written as text; ``""`` if it stays a number."""
    if isinstance(value, float) and not math.isfinite(value):
        return "hparams: NaN or infinite, written as text"
    if isinstance(value, int) and abs(value) > EXACT_MAX:
        return "hparams: a whole number beyond 2^53, written as text"
    return ""


def _in_its_module(name: str, scope: str) -> str:
    """Return the name of a weight inside its module's scope, as TensorBoard draws it.

    A name that does not belong to a module of ``scope`` stays as it is.
    """
    path = "".join(f"{part.rpartition('-')[0]}." for part in scope.split("/"))
    if name.startswith(path):
        return f"{scope}/{name.removeprefix(path)}"
    return name


def _add_shape(message: Any, kind: object) -> None:
    if isinstance(kind, TensorType):
        shape = message.attr["_output_shapes"].list.shape.add()
        for length in kind.shape:
            shape.dim.add(size=length)
