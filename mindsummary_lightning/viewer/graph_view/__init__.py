"""A recorded graph as MindInsight's graph page draws it.

It has scopes that open, groups of similar nodes, and two views.

The rules are MindInsight 2.3.1's (``datavisual/data_transform/graph`` of its wheel), so that its
page behaves the same here and there. :mod:`~mindsummary_lightning.viewer.graph_view.layout` applies
them in their order.
"""
