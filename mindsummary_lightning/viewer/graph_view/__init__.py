"""Views of a recorded computational graph, as MindInsight's graph page draws it.

A view has scopes that open, and groups of similar nodes. A graph has two views.

The rules are MindInsight 2.3.1's (``datavisual/data_transform/graph`` of its wheel), so that its
page behaves the same here and there. :mod:`~mindsummary_lightning.viewer.graph_view.layout` applies
the rules in their order.
"""
