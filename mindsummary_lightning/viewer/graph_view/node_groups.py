"""Groups of nodes: many nodes of one type in one scope are drawn as one that opens."""

from __future__ import annotations

from mindsummary_lightning.viewer.graph_view.node_table import (
    AGGREGATION_SCOPE,
    CONSTANT,
    PARAMETER,
    NodeTable,
    ViewNode,
    join_scope,
)

__all__ = ["group_nodes", "lay_out_parameters"]


def group_nodes(table: NodeTable, min_members: int) -> None:
    """Move nodes of one scope and type into a group ``<type>[<members>]_<number>`` of that scope.

    Groups are numbered through the whole graph in the order of their first members.

    Args:
        table: the nodes, without name scopes; changed in place.
        min_members: how many alike nodes make a group.
    """
    alike: dict[tuple[str, str], list[ViewNode]] = {}
    for node in table:
        if node.type != CONSTANT:
            alike.setdefault((node.scope, node.type), []).append(node)
    groups: list[tuple[ViewNode, list[ViewNode]]] = []
    for (scope, node_type), members in alike.items():
        if len(members) >= min_members:
            name = join_scope(scope, f"{node_type}[{len(members)}]_{len(groups)}")
            for member in members:
                table.move(member, name, f"{name}/{member.name.rpartition('/')[2]}")
            group = ViewNode(name, AGGREGATION_SCOPE, scope)
            table.add(group)
            groups.append((group, members))
    for group, members in groups:  # only now: all members have their new names
        for member in members:
            group.inherit_edges(member, table)


def lay_out_parameters(table: NodeTable) -> None:
    """Let the page draw groups of parameters apart from their consumers, joined to them by proxy edges.

    A group is joined to a consumer in its own scope, or else to the group that holds the consumer.

    Args:
        table: the nodes, grouped; changed in place.
    """
    members: dict[str, list[ViewNode]] = {}
    for node in table:
        if node.type == PARAMETER and node.scope in table and table[node.scope].type == AGGREGATION_SCOPE:
            members.setdefault(node.scope, []).append(node)
    for name, parameters in members.items():
        group = table[name]
        group.independent_layout = True
        for consumer, edge in group.outputs.items():
            drawn = _drawn_consumer(table[consumer], group.scope)
            group.proxy_outputs[drawn] = edge.kind
            table[consumer].proxy_inputs[name] = table[drawn].proxy_inputs[name] = edge.kind
        for parameter in parameters:
            parameter.independent_layout = True
            for consumer, edge in parameter.outputs.items():
                parameter.proxy_outputs[_drawn_consumer(table[consumer], group.scope)] = edge.kind
                table[consumer].inputs[parameter.name].independent_layout = True


def _drawn_consumer(consumer: ViewNode, scope: str) -> str:
    return consumer.name if consumer.scope == scope else consumer.scope
