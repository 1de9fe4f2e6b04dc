"""What MindInsight 2.3.1 demands of a graph, stated apart from the code that names it.

Each rule is one that a real reader punished: by dropping the graph, a node or an edge, or by a page
that breaks. The sources are ``datavisual/data_transform/graph/{graph,msgraph,optimized_graph}.py``
of its wheel.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

from mindsummary_lightning.fileformat._proto import anf_ir_pb2
from mindsummary_lightning.fileformat.graph_codec import encode_graph
from mindsummary_lightning.values.graph_nodes import Graph, GraphConstant, GraphNode

FORBIDDEN = set('<>"{}|\\\n\r\t\x00')
TYPES_OF_THE_READER = {
    "",
    "Const",
    "Parameter",
    "Load",
    "MakeTuple",
    "UpdateState",
    "name_scope",
    "aggregation_scope",
}


def broken_rules(graph: Graph) -> list[str]:
    """A sentence for each rule the graph breaks; empty for a graph that the reader keeps whole."""
    return [
        *_names(graph),
        *_scopes(graph),
        *_references(graph),
        *_types(graph),
        *_attributes(graph),
    ]


def edges(graph: Graph) -> set[tuple[str, str]]:
    """(source, id of the consumer), as the reader keeps them: the same source twice is one edge."""
    return {(entry.name, node.name) for node in graph.nodes for entry in node.inputs}


def unconnected(graph: Graph) -> set[str]:
    """Ids of the operations without an edge."""
    return {node.name for node in graph.nodes if not node.inputs} - {
        source for source, _ in edges(graph)
    }


def comes_from(graph: Graph, result: str, inputs: Collection[str]) -> bool:
    """Whether a path of edges leads from one of the parameters ``inputs`` to the operation
    ``result``.
    """
    sources_of = {node.name: [entry.name for entry in node.inputs] for node in graph.nodes}

    @functools.cache
    def search(name: str) -> bool:
        return name in inputs or any(map(search, sources_of.get(name, ())))

    return search(result)


def attribute_size(value: Any) -> int:
    """Bytes of an attribute or constant as the reader measures it; it drops one of more
    than 1,024.
    """
    graph = encode_graph(Graph((), constants=(GraphConstant("", value),)))
    return int(anf_ir_pb2.GraphProto.FromString(graph).const_vals[0].value.ByteSize())


def _names(graph: Graph) -> list[str]:
    broken = []
    ids = [node.name for node in graph.nodes]
    shared = [*ids, *(p.name for p in graph.parameters), *(c.name for c in graph.constants)]
    if len(set(shared)) != len(shared):
        broken.append(
            "ids, parameters and constants share names: "
            f"{sorted({n for n in shared if shared.count(n) > 1})}"
        )
    if len({node.full_name for node in graph.nodes}) != len(graph.nodes):
        broken.append("two nodes have one full name")
    broken += [
        f"id {name!r} is no plain number"
        for name in ids
        if not (name.isascii() and name.isdecimal())
    ]
    for text in (*(node.full_name for node in graph.nodes), *shared):
        if not text or FORBIDDEN & set(text):
            broken.append(f"{text!r} is empty or holds a character that breaks the reader")
        if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
            broken.append(f"{text!r} cannot be encoded")
    broken += [f"parameter or constant {name!r} holds a slash" for name in shared if "/" in name]
    return broken


def _scopes(graph: Graph) -> list[str]:
    broken = []
    scopes = {
        "/".join(parts[:k])
        for node in graph.nodes
        for parts in [node.scope.split("/")]
        for k in range(1, 70)
    }
    names = {node.full_name for node in graph.nodes}
    for node in graph.nodes:
        if node.full_name != f"{node.scope}/{node.op_type}-op{node.name}".lstrip("/"):
            broken.append(f"{node.full_name!r} does not lie in its scope {node.scope!r}")
        if (node.scope and not all(node.scope.split("/"))) or node.scope.count("/") > 64:
            broken.append(f"scope {node.scope!r} has an empty part or too many")
        if node.full_name in scopes:
            broken.append(f"node {node.full_name!r} is named like a scope")
        if (
            "optimizer" in node.full_name
            or node.full_name.startswith("Gradients")
            or "opt" in node.instance_name
        ):
            broken.append(f"the optimized view drops {node.full_name!r}")
        for entry in node.inputs:  # parameters and constants are copied to <scope>/<name>
            copy = f"{node.scope}/{entry.name}".lstrip("/")
            if not entry.name.isdecimal() and (copy in scopes or copy in names):
                broken.append(f"the copy {copy!r} of a parameter meets another name")
    return broken


def _references(graph: Graph) -> list[str]:
    broken = []
    position = {node.name: place for place, node in enumerate(graph.nodes)}
    outside = {p.name for p in graph.parameters} | {c.name for c in graph.constants}
    used = {entry.name for node in graph.nodes for entry in node.inputs}
    for place, node in enumerate(graph.nodes):
        for entry in node.inputs:
            if entry.name not in outside and position.get(entry.name, place) >= place:
                broken.append(
                    f"{node.full_name!r} takes {entry.name!r}, which is not there before it"
                )
    broken += [
        f"{name!r} is taken by no node, so the reader drops it" for name in sorted(outside - used)
    ]
    if not any(node.inputs and node.op_type != "TupleGetItem" for node in graph.nodes):
        broken.append("the optimized view has nothing to show")
    return broken


def _types(graph: Graph) -> list[str]:
    broken = []
    for kind in {node.op_type for node in graph.nodes}:
        if (
            kind in TYPES_OF_THE_READER
            or kind.endswith("_scope")
            or "Parameter" in kind
            or "/" in kind
        ):
            broken.append(f"type {kind!r} means something else to the reader")
    return broken


def _attributes(graph: Graph) -> list[str]:
    values = [(node.full_name, a.name, a.value) for node in graph.nodes for a in node.attributes]
    values += [("constants", constant.name, constant.value) for constant in graph.constants]
    return [
        f"{name} of {owner} is too large"
        for owner, name, value in values
        if attribute_size(value) > 1024
    ]


def sources(graph: Graph, consumer: GraphNode) -> list[Any]:
    """What feeds a node: types of nodes, names of parameters, values of constants."""
    named: dict[str, Any] = {node.name: node.op_type for node in graph.nodes}
    named |= {parameter.name: parameter.name for parameter in graph.parameters}
    named |= {constant.name: constant.value for constant in graph.constants}
    return [named[entry.name] for entry in consumer.inputs]
