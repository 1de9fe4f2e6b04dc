"""Row 44, MindInsight's half: at every look at a copy in a store that fails, its loader shows a
beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mindsummary_lightning import SummaryReader, SummaryRecord
from mindsummary_lightning.remote.run_copies import RunCopies, Store
from tests.oracle.loaded_runs import needs_mindinsight, shown
from tests.remote.stores import Faults, RewritingStore, files_in_memory

pytestmark = needs_mindinsight


def _looks(folder: Path, number: int) -> list[Path]:
    """Directories with what a copy of a growing run was at some calls of its store."""
    RewritingStore.store.clear()
    faults = RewritingStore.faults = Faults(1)
    looks: list[Path] = []

    def look() -> None:
        files = files_in_memory(RewritingStore)
        if files and faults.random.random() < 0.3:
            looks.append(folder / str(len(looks)))
            looks[-1].mkdir(parents=True)
            for name, data in files.items():
                (looks[-1] / name).write_bytes(data)

    faults.after_call = look
    copies, step = RunCopies(Store(str(folder / "run")), Store("rewriting://run")), 0
    with SummaryRecord(folder / "run", max_file_size=2000) as record:
        while len(looks) < number:
            for _ in range(faults.random.randrange(20)):
                step += 1
                record.add_value("scalar", "loss", 1.0 / step)
                record.record(step)
            copies.send()
    return looks


def test_each_look_at_a_copy_shows_a_beginning_of_the_run(
    tmp_path: Path, times: Callable[[int, int], int], figure: Callable[[int, str], None]
) -> None:
    looks = _looks(tmp_path, times(4, 40))

    for path, answer in zip(looks, shown(*looks), strict=True):
        steps = [step for step, _ in answer["scalars"].get("loss", [])]
        ours = SummaryReader(path).all_scalars()
        assert steps == [*range(1, len(steps) + 1)]
        assert steps == (ours["loss"].steps.tolist() if ours else [])
    figure(
        44,
        (
            f"MindInsight's loader shows a beginning without a hole at {len(looks)} of "
            f"{len(looks)} looks"
        ),
    )
