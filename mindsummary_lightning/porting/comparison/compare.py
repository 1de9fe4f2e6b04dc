"""``compare_runs``: compares two recorded runs, and returns the result.

Are two recorded runs equal within the tolerance, and if not, from which step on?
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from mindsummary_lightning.porting.comparison.alignment import (
    Alignment,
    align,
    align_step_offset,
)
from mindsummary_lightning.porting.comparison.comparison_data import Largest
from mindsummary_lightning.porting.comparison.distances import largest
from mindsummary_lightning.porting.comparison.judgement import judge
from mindsummary_lightning.porting.comparison.notes import notes_of
from mindsummary_lightning.porting.comparison.other_values import (
    largest_scalar_differences,
    largest_whole_distances,
    setting_differences,
    whole_distances,
)
from mindsummary_lightning.porting.comparison.recorded_by_one import (
    compared,
    only_in_each,
    other_shapes,
)
from mindsummary_lightning.porting.comparison.result import Comparison
from mindsummary_lightning.porting.comparison.run_data import RunData, read_run_data
from mindsummary_lightning.porting.comparison.run_distances import (
    RunDistances,
    run_distances,
    with_repeat,
)
from mindsummary_lightning.porting.comparison.statistics_comparison import (
    compare_output_statistics,
)
from mindsummary_lightning.porting.comparison.tolerance_table import TOLERANCES, Tolerance
from mindsummary_lightning.porting.comparison.verdict_text import next_step_text, sentence_of

_SAME_FIRST_LOSS = TOLERANCES["bfloat16"].loss  # of a baseline and its repeat, in any precision


class _Measured(NamedTuple):
    """Two aligned runs, and the distances measured between them."""

    alignment: Alignment
    distances: RunDistances


def compare_runs(
    baseline: str | os.PathLike[str],
    candidate: str | os.PathLike[str],
    *,
    names: Mapping[str, str] | None = None,
    tolerance: Literal["float32", "bfloat16", "float16"] | float | None = None,
    same: str | os.PathLike[str] | None = None,
    progress: Callable[[int], object] = lambda count: None,
) -> Comparison:
    """Compare two recorded runs step by step.

    Args:
        baseline: directory of a run, of MindSpore or of this package.
        candidate: directory of the run that is compared with it.
        names: names of tensors in the candidate by names in the baseline, where they cannot be
            matched automatically.
        tolerance: ``"float32"``, ``"bfloat16"``, ``"float16"``, a number between 0 and 1 for
            tensors and losses alike, or ``None``: by the lower precision of both runs.
        same: directory of a repeat of the baseline. Three times what it differs by is no
            difference.
        progress: called with the bytes of the files of each run that has been read.

    Returns:
        The result. It states recorded numbers. It names a stage of the step only where both runs
        recorded the output statistics of that step.

    Raises:
        NotADirectoryError: a path is not a directory.
        FileNotFoundError: a directory holds no run.
        DamagedFileError: a file is damaged.
        ValueError: ``names``, ``tolerance`` or ``same`` cannot be used.
    """
    a, b = read_run_data(baseline, progress), read_run_data(candidate, progress)
    limits = _tolerance(tolerance, a, b)
    b, offset = align_step_offset(a, b)
    runs = a, b
    repeat = None if same is None else read_run_data(same, progress)
    found = _measure(a, b, repeat, names, limits, candidate)
    alignment, distances = found
    tables = a.output_statistics, b.output_statistics
    of_repeat = None if repeat is None else repeat.output_statistics
    statistics = compare_output_statistics(*tables, limits, names or {}, of_repeat)
    whole = whole_distances(a, b)

    judgement = judge(alignment, distances, statistics, whole)

    difference, verdict = judgement.difference, judgement.verdict
    counts = compared(alignment, statistics)
    only_a, only_b = only_in_each(runs, alignment, statistics)
    step = None if difference is None else difference.step
    return Comparison(
        baseline=a.run_dir,
        candidate=b.run_dir,
        verdict=verdict,
        sentence=sentence_of(judgement, distances, counts.steps),
        next_step=next_step_text(judgement, distances.repeat),
        first_difference=difference if verdict == "different" else None,
        undecided_difference=difference if verdict == "undecided" else None,
        doubt=judgement.doubt,
        compared=counts,
        only_in_baseline=only_a,
        only_in_candidate=only_b,
        other_shapes=other_shapes(runs, only_a, only_b),
        matched_by_value=_pairs(alignment, "value"),
        matched_by_position=_pairs(alignment, "position"),
        largest=Largest(largest(distances.losses), largest(distances.tensors)),
        tolerance=limits,
        repeat=distances.repeat,
        settings=setting_differences(a, b),
        scalars=largest_scalar_differences(a, b),
        whole_tensors=largest_whole_distances(whole),
        notes=tuple(notes_of(runs, alignment, offset, step)),
        output_statistics=statistics,
        alignment=alignment,
        distances=distances,
    )


def _measure(
    a: RunData,
    b: RunData,
    repeat: RunData | None,
    names: Mapping[str, str] | None,
    tolerance: Tolerance,
    candidate: str | os.PathLike[str],
) -> _Measured:
    """Align two runs and measure their distances; a repeat raises the tolerances."""
    alignment = align(a, b, names)
    distances = run_distances(alignment, tolerance)
    if repeat is None:
        return _Measured(alignment, distances)
    alignment_of_repeat = align(a, repeat)
    of_repeat = run_distances(alignment_of_repeat, tolerance)
    first_loss = of_repeat.losses[:1].max(initial=0.0)
    if os.path.samefile(repeat.run_dir, candidate) or first_loss > _SAME_FIRST_LOSS:
        raise ValueError(
            f"same must be a repeat of the baseline, got {repeat.run_dir}: it is the candidate, "
            "or its first loss differs from the baseline's. Run the baseline's program again"
        )
    raised = with_repeat(distances, alignment, alignment_of_repeat, of_repeat)
    return _Measured(alignment, raised)


def _pairs(alignment: Alignment, rule: str) -> tuple[tuple[str, str], ...]:
    return tuple((pair.a, pair.b) for pair in alignment.names.pairs if pair.rule == rule)


def _tolerance(asked: object, a: RunData, b: RunData) -> Tolerance:
    """Return the requested tolerance, or else a tolerance for the runs' precision.

    The run with the lower precision decides.
    """
    if asked is None:
        precisions = f"{a.precision} {b.precision}"
        if "bf" in precisions:
            return TOLERANCES["bfloat16"]
        return TOLERANCES["float16" if "16" in precisions else "float32"]
    if isinstance(asked, str) and asked in TOLERANCES:
        return TOLERANCES[asked]
    if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not 0 < asked < 1:
        raise ValueError(
            "tolerance must be float32, bfloat16, float16 or a number between 0 and 1, "
            f"got {asked!r}"
        )
    return Tolerance(f"{asked:g}", float(asked), float(asked), float(asked))
