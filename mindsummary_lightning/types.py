"""Types of this package's arguments and results, for type annotations.

Using the package does not require an import from here.
"""

from __future__ import annotations

from mindsummary_lightning.lineage.query import LineageAnswer, LineageOfRun
from mindsummary_lightning.porting.comparison.comparison_data import Verdict
from mindsummary_lightning.porting.comparison.first_difference import (
    FirstDifference,
    TensorDistance,
)
from mindsummary_lightning.porting.comparison.pair_table import Stage
from mindsummary_lightning.porting.comparison.result import Comparison
from mindsummary_lightning.reading.landscape_plot import RecordedLandscape
from mindsummary_lightning.reading.lineage_text import RunLineage
from mindsummary_lightning.reading.output_statistics import OutputStatistics
from mindsummary_lightning.reading.parameter_tables import NonFinite, ParameterTable
from mindsummary_lightning.reading.run_numbers import HistogramStatistics
from mindsummary_lightning.reading.series import Sample, ScalarSeries
from mindsummary_lightning.recording.pending_values import Plugin
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    Event,
    Graph,
    Histogram,
    Image,
    LandscapeMetadata,
    LossLandscape,
    Points,
    Tensor,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.values.specified_data import (
    CollectLandscape,
    CreateLandscape,
    SpecifiedData,
)

__all__ = [
    "CollectLandscape",
    "Comparison",
    "CreateLandscape",
    "DatasetGraph",
    "EvaluationInfo",
    "Event",
    "FirstDifference",
    "Graph",
    "Histogram",
    "HistogramStatistics",
    "Image",
    "LandscapeMetadata",
    "LineageAnswer",
    "LineageOfRun",
    "LossLandscape",
    "NonFinite",
    "OutputStatistics",
    "ParameterTable",
    "Plugin",
    "Points",
    "RecordedLandscape",
    "RunLineage",
    "Sample",
    "ScalarSeries",
    "SpecifiedData",
    "Stage",
    "Tensor",
    "TensorDistance",
    "TrainInfo",
    "UserDefinedInfo",
    "Verdict",
]
