"""Frozen dataclasses for everything that a run records.

They need no protobuf and no torch, and access no files.

A value owns its memory (arrays are copied once and made read-only), so no other layer copies it.
``check_recordable`` checks whether MindInsight can show a value.
"""

from mindsummary_lightning.values.data_types import DataType, data_type_of
from mindsummary_lightning.values.events import Event, LineageEvent, SummaryValue, kind_of
from mindsummary_lightning.values.graph_nodes import (
    Attribute,
    Graph,
    GraphConstant,
    GraphInput,
    GraphNode,
    GraphOutput,
    GraphParameter,
    GraphTexts,
    TensorType,
    TupleType,
)
from mindsummary_lightning.values.lineage_info import (
    DatasetGraph,
    EvaluationInfo,
    Operation,
    RunInfo,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.values.summary_values import (
    Histogram,
    Image,
    LandscapeMetadata,
    LossLandscape,
    Points,
    Tensor,
)
from mindsummary_lightning.values.validation import check_recordable

__all__ = [
    "Attribute",
    "DataType",
    "DatasetGraph",
    "EvaluationInfo",
    "Event",
    "Graph",
    "GraphConstant",
    "GraphInput",
    "GraphNode",
    "GraphOutput",
    "GraphParameter",
    "GraphTexts",
    "Histogram",
    "Image",
    "LandscapeMetadata",
    "LineageEvent",
    "LossLandscape",
    "Operation",
    "Points",
    "RunInfo",
    "SummaryValue",
    "Tensor",
    "TensorType",
    "TrainInfo",
    "TupleType",
    "UserDefinedInfo",
    "check_recordable",
    "data_type_of",
    "kind_of",
]
