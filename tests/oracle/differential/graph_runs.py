"""Runs with graphs that both sides show: random ones in summary files, ``.pb`` files, and several
files of one run.
"""

from __future__ import annotations

import random
from pathlib import Path

from mindsummary_lightning.fileformat._proto import anf_ir_pb2, summary_pb2
from mindsummary_lightning.fileformat.framing import frame
from tests.reading.runs import values_at, write_summary
from tests.viewer.random_graphs import random_graph

SEEDS = (3, 5, 8, 13, 21, 34)


def write_graph_runs(base: Path, chance: random.Random) -> None:
    """Write the runs below ``base``."""
    del chance  # each graph has a seed of its own
    for seed in SEEDS:
        write_summary(
            base / f"graph {seed}", [_record(random_graph(seed)), values_at(1, {"loss": 1.0})]
        )
    compiled = base / "compiled"
    compiled.mkdir()
    for name, seed in (("ms_output_optimize.pb", 55), ("a.pb", 56), ("z graph.pb", 57)):
        (compiled / name).write_bytes(
            anf_ir_pb2.ModelProto(graph=random_graph(seed)).SerializeToString()
        )
    (compiled / "broken.pb").write_bytes(b"\xff" * 40)
    write_summary(compiled, [_record(random_graph(58))])
    for second, seed in ((1_700_000_000, 59), (1_700_000_100, 60)):
        write_summary(base / "graph of a resumed run", [_record(random_graph(seed))], second)


def _record(graph: anf_ir_pb2.GraphProto) -> bytes:
    event = summary_pb2.Event(wall_time=1_700_000_000.5, graph_def=graph)
    return b"".join(bytes(part) for part in frame([event.SerializeToString()]))
