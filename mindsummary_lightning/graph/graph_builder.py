"""Build a computational graph whose names MindInsight accepts.

Nodes, parameters and constants get such names when they are added.

Each rule for names prevents that MindInsight drops a graph, a node or an edge (MindInsight 2.3.1,
``datavisual/data_transform/graph``). The module does not depend on torch: any text becomes a safe
name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from mindsummary_lightning.errors import GraphCaptureError
from mindsummary_lightning.values.graph_nodes import (
    Attribute,
    AttributeValue,
    Graph,
    GraphConstant,
    GraphInput,
    GraphNode,
    GraphOutput,
    GraphParameter,
    GraphType,
)

MAX_NODES = 100_000  # operations; MindInsight does not load a larger graph
# deeper scopes are merged into their parent: the reader walks the scope tree by recursive calls
_MAX_SCOPE_DEPTH = 64
_MAX_NAME_CHARACTERS = 120
_OP_SUFFIX = re.compile(r"-op\d+$")  # ends the name of a node, so no other name may end so
# not operations to it (its NodeTypeEnum)
_READER_TYPES = ("Const", "Load", "MakeTuple", "UpdateState")


class GraphBuilder:
    """A builder of a computational graph, to which nodes are added after their inputs.

    Ids and names are unique strings.
    """

    def __init__(self) -> None:
        self._nodes: list[GraphNode] = []
        self._parameters: list[GraphParameter] = []
        self._constants: list[GraphConstant] = []
        self._outputs: list[GraphOutput] = []
        self._names: set[str] = set()  # of parameters and constants
        self._scopes: set[str] = set()

    def __len__(self) -> int:
        return len(self._nodes)

    def scope(self, parent: str, name: str, class_name: str) -> str:
        """Return a unique scope for a module that runs inside the scope ``parent``.

        An example is ``encoder-Sequential/0-Linear``.
        """
        if parent.count("/") >= _MAX_SCOPE_DEPTH:
            return parent
        part = _safe_scope(name, class_name)
        return _unique(f"{parent}/{part}" if parent else part, self._scopes)

    def parameter(self, name: str, parameter_type: GraphType | None) -> str:
        """Add a weight, buffer or input of the graph, and return its unique name."""
        name = _unique(_safe_parameter_name(name), self._names)
        self._parameters.append(GraphParameter(name, parameter_type))
        return name

    def constant(self, value: AttributeValue) -> str:
        """Add a constant for a single node, and return its name.

        A constant that several nodes share would connect unrelated nodes. MindSpore does not share
        constants either.
        """
        name = _unique(f"cst{len(self._constants) + 1}", self._names)
        self._constants.append(GraphConstant(name, value))
        return name

    def node(
        self,
        op_type: str,
        scope: str,
        inputs: Sequence[str],
        attributes: tuple[Attribute, ...] = (),
        output_type: GraphType | None = None,
    ) -> str:
        """Add an operation to the graph, and return its id.

        Raises:
            GraphCaptureError: the graph has ``MAX_NODES`` operations already.
        """
        if len(self._nodes) >= MAX_NODES:
            raise GraphCaptureError(
                f"the graph has more than {MAX_NODES} operations, and MindInsight cannot load it"
            )
        op_type, name = _safe_op_type(op_type), str(len(self._nodes) + 1)
        full_name = f"{scope}/{op_type}-op{name}".lstrip("/")
        edges = tuple(map(GraphInput, inputs))
        self._nodes.append(
            GraphNode(name, op_type, scope, full_name, edges, attributes, output_type)
        )
        return name

    def output(self, name: str, output_type: GraphType | None) -> None:
        """Add a result of the whole graph; ``name`` is the id of its node."""
        self._outputs.append(GraphOutput(name, output_type))

    def build(self, name: str) -> Graph:
        """Build the graph of all nodes that are connected.

        Raises:
            GraphCaptureError: no operation has an input.
        """
        used = {edge.name for node in self._nodes for edge in node.inputs}
        if not used:
            raise GraphCaptureError("no operation on a tensor was observed")
        nodes = {node.name: node for node in self._nodes if node.inputs or node.name in used}
        return Graph(
            nodes=tuple(nodes.values()),
            name=name,
            parameters=tuple(parameter for parameter in self._parameters if parameter.name in used),
            constants=tuple(constant for constant in self._constants if constant.name in used),
            outputs=tuple(output for output in self._outputs if output.name in nodes),
        )


def _unique(name: str, taken: set[str]) -> str:
    """Return the name, or the first of ``<name>_2``, ``<name>_3``, ... that is free.

    The result is added to ``taken``.
    """
    unique = name
    number = 1
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    taken.add(unique)
    return unique


@functools.lru_cache(maxsize=1024)
def _safe_op_type(text: str) -> str:
    # The reader takes five siblings with ``Parameter`` in their types for weights, and then fails
    # on their consumers; its search does not find a type that ends in ``_scope``.
    name = _kept_by_optimized_view(_safe(text, "op").replace("Parameter", "Param"))
    if name in _READER_TYPES or name.endswith("_scope"):
        return f"{name}_"
    return name


def _safe_parameter_name(text: str) -> str:
    # The ids of nodes are decimal, and the reader copies a parameter to ``<scope>/<name>`` of each
    # consumer, where a scope (with ``-``, without dots) may be.
    name = _safe(text, "parameter")
    name = name if "." in name else name.replace("-", "_")
    if name.isdecimal() or _OP_SUFFIX.search(name):
        return f"{name}_"
    return name


def _safe_scope(name: str, class_name: str) -> str:
    part = f"{_safe(name, 'module')}-{_safe(class_name, 'Module')}".replace(".", "_")
    return _kept_by_optimized_view(f"{part}_" if _OP_SUFFIX.search(part) else part)


def _safe(text: str, fallback: str) -> str:
    r"""Keep letters, digits and ``_ . -`` of a text, and replace everything else by _.

    MindInsight rejects ``< > "``, and its drawing breaks on ``{ } | \`` and line ends.
    """
    return (
        "".join(c if c.isalnum() or c in "_.-" else "_" for c in text[:_MAX_NAME_CHARACTERS])
        or fallback
    )


def _kept_by_optimized_view(part: str) -> str:
    """Change a name that MindInsight's optimized view would drop.

    The view drops paths that contain ``optimizer`` or start with ``Gradients``.
    """
    part = part.replace("optimizer", "Optimizer")
    if part.startswith("Gradients"):
        return f"_{part}"
    return part
