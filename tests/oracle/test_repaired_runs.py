"""Row 21, MindInsight's half: whatever damage a run took, its own loader shows all of what
``repair`` leaves.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from mindsummary_lightning import SummaryReader
from mindsummary_lightning.maintenance.repair import repair_run
from tests.cli.demo_run import write_demo_run
from tests.oracle.loaded_runs import assert_shown_whole, needs_mindinsight, shown

pytestmark = needs_mindinsight


def damage(path: Path, draw: random.Random) -> None:
    data = path.read_bytes()
    begin = draw.randrange(len(data))
    end = min(len(data), begin + draw.choice([1, 12, 500, 20_000]))
    put = draw.choice([draw.randbytes(end - begin), bytes(end - begin), b"", draw.randbytes(40)])
    path.write_bytes(data[:begin] + put + (data[end:] if draw.random() < 0.8 else b""))


def test_a_repaired_run_is_shown_whole_whatever_the_damage(
    tmp_path: Path, times: Callable[[int, int], int], figure: Callable[[int, str], None]
) -> None:
    write_demo_run(tmp_path / "whole", steps=30)
    before = {
        tag: len(series) for tag, series in SummaryReader(tmp_path / "whole").all_scalars().items()
    }
    draw = random.Random(21)
    runs = [tmp_path / str(number) for number in range(times(20, 500))]
    for run in runs:
        shutil.copytree(tmp_path / "whole", run)
        for path in run.iterdir():  # a summary and a lineage file
            damage(path, draw)
        for file in repair_run(str(run)):
            if not file.records:  # nothing of it can be read; it is left for its owner to look at
                Path(file.path).unlink()

    kept = 0
    for run, answer in zip(runs, shown(*runs), strict=True):
        assert_shown_whole(run, answer)
        kept += sum(map(len, answer["scalars"].values()))
    assert kept > 0.5 * len(runs) * sum(before.values())
    figure(
        21,
        (
            f"{2 * len(runs)} random damages, repaired: MindInsight's loader shows all that is "
            "left, each time"
        ),
    )
