"""Nodes brought into scopes: copies of parameters and constants, groups of alike nodes, and the scopes of names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from mindsummary_lightning.viewer.graph_view.node_table import (
    AGGREGATION_SCOPE,
    CONSTANT,
    NAME_SCOPE,
    PARAMETER,
    NodeTable,
    ViewNode,
    join_scope,
    move,
)


def copy_into_scopes(table: NodeTable, node_type: str) -> None:
    """Replace the nodes of a type by copies beside their consumers; those that nobody uses vanish.

    Consumers in one scope share a copy. A copy at the root takes the place of the original, others follow the last
    node in order of their first use.
    """
    originals = {node.name: node for node in table.values() if node.type == node_type}
    copies: dict[str, ViewNode] = {}
    for node in table.values():
        for source in [name for name in node.inputs if name in originals]:
            name = join_scope(node.scope, source)
            if name not in copies:
                copies[name] = ViewNode(name, node_type, node.scope, originals[source].attributes)
            edge = node.inputs.pop(source)
            node.add_input(name, dataclasses.replace(edge))
            copies[name].add_output(node.name, dataclasses.replace(edge))
    table.update(copies)
    for name in originals.keys() - copies.keys():
        del table[name]


def group_nodes(table: NodeTable, min_members: int) -> None:
    """Move ``min_members`` or more nodes of one scope and type into a group ``<type>[<members>]_<number>`` there.

    Groups are numbered through the whole graph in the order of their first members. There are no name scopes yet.
    """
    alike: dict[tuple[str, str], list[ViewNode]] = {}
    for node in table.values():
        if node.type != CONSTANT:
            alike.setdefault((node.scope, node.type), []).append(node)
    groups: list[tuple[ViewNode, list[ViewNode]]] = []
    for (scope, node_type), members in alike.items():
        if len(members) >= min_members:
            name = join_scope(scope, f"{node_type}[{len(members)}]_{len(groups)}")
            for member in members:
                move(table, member, name, f"{name}/{member.name.rpartition('/')[2]}")
            table[name] = ViewNode(name, AGGREGATION_SCOPE, scope)
            groups.append((table[name], members))
    for group, members in groups:  # only now: all members have their new names
        for member in members:
            group.inherit_edges(member, table)


def lay_out_parameters(table: NodeTable) -> None:
    """Let the page draw groups of parameters apart from their consumers, joined to them by proxy edges.

    A group is joined to a consumer in its own scope, or else to the group that holds the consumer.
    """
    members: dict[str, list[ViewNode]] = {}
    for node in table.values():
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


def add_name_scopes(table: NodeTable) -> None:
    """Add a scope for each prefix of a name that is not a group; it inherits the edges of all nodes below it.

    A node that is named like a scope is renamed: its last part is put in parentheses.
    """
    prefixes = {prefix for node in table.values() for prefix in _prefixes(node.name)}
    for node in [node for node in table.values() if node.name in prefixes and node.type != AGGREGATION_SCOPE]:
        move(table, node, node.scope, join_scope(node.scope, f"({node.name.rpartition('/')[2]})"))
    scopes: dict[str, ViewNode] = {}
    for node in table.values():
        for prefix in _prefixes(node.name):
            if prefix not in table:
                if prefix not in scopes:
                    scopes[prefix] = ViewNode(prefix, NAME_SCOPE, prefix.rpartition("/")[0])
                scopes[prefix].inherit_edges(node, table)
    table.update(scopes)


def _prefixes(name: str) -> Iterator[str]:
    end = name.find("/")
    while end > 0:
        yield name[:end]
        end = name.find("/", end + 1)
