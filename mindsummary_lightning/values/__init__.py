"""Plain frozen values of everything that a run records.

They need no protobuf, no torch and no files.

Every value is checked when it is built and owns its memory (arrays are copied once and read-only),
so no layer checks or copies it again.
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
