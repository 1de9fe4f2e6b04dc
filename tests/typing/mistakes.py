"""Ten mistakes that a checker has to see: where it sees one no longer, the comment behind it is
reported as unused.
"""

from __future__ import annotations

import mindsummary_lightning as ms
from mindsummary_lightning import SummaryCollector, SummaryReader, SummaryRecord, compare_runs

ms.SumaryReader("run")  # type: ignore[attr-defined]
record = SummaryRecord("run")
record.add_txet("note", "text")  # type: ignore[attr-defined]
record.add_scalar("loss", 0.5, step=3)  # type: ignore[call-arg]
record.add_value("scalr", "loss", 0.5)  # type: ignore[arg-type]
record.set_mode("evaluate")  # type: ignore[arg-type]
SummaryCollector(collect_specified_data={"histogram_reglar": "layer.*"})  # type: ignore[arg-type]
SummaryCollector(collect_specified_data={"collect_landscape": {"unit": "epochs"}})  # type: ignore[arg-type]
compare_runs("a", "b", tolerance="fp16")  # type: ignore[arg-type]
is_same = compare_runs("a", "b").verdict == "identical"  # type: ignore[comparison-overlap]
SummaryReader("run").scalars("loss").value  # type: ignore[attr-defined]
