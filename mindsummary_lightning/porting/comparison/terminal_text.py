"""Writes the lines that ``mindsummary compare`` prints.

They are the verdict, the next step for the user, and a table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mindsummary_lightning.porting.comparison.comparison_data import ComparisonData, OnlyIn
from mindsummary_lightning.porting.comparison.divergence import Divergence
from mindsummary_lightning.porting.comparison.matching.tensor_names import GRADIENT
from mindsummary_lightning.porting.comparison.row_text import both, detail_lines, stage_marks
from mindsummary_lightning.porting.comparison.statistics_comparison import StatisticsComparison
from mindsummary_lightning.values.text import counted, listed

_LISTED = 4


def first_line(comparison: ComparisonData) -> str:
    """Return the verdict with its numbers."""
    return f"{comparison.verdict.replace('_', ' ')}: {comparison.sentence}"


def comparison_lines(comparison: ComparisonData) -> Iterator[str]:
    """Yield the result line by line: at most 12 lines for an ordinary pair of runs."""
    yield first_line(comparison)
    if comparison.next_step:
        yield f"next: {comparison.next_step}"
    yield f"baseline {comparison.baseline}, candidate {comparison.candidate}"
    yield _compared_line(comparison)
    other = {tensor.name for tensor in comparison.other_shapes}
    only = (
        _only_text("baseline", comparison.only_in_baseline, other),
        _only_text("candidate", comparison.only_in_candidate, other),
    )
    if any(only):
        yield "; ".join(filter(None, only))
    yield from _shape_lines(comparison)
    yield from _matched_line("value", comparison.matched_by_value)
    yield from _matched_line("position", comparison.matched_by_position)
    if comparison.settings:
        settings = []
        for name, (value_a, value_b) in comparison.settings.items():
            settings.append(f"{name} {value_a} | {value_b}")
        yield f"settings that differ: {listed(settings, _LISTED)}"
    statistics = comparison.output_statistics
    if statistics is not None:
        yield from _stage_lines(statistics)
    elif comparison.shown_difference is not None:
        yield from _tensor_lines(comparison)
    for note in comparison.notes:
        yield f"note: {note.text}"


def _compared_line(comparison: ComparisonData) -> str:
    compared, tag = comparison.compared, comparison.alignment.loss_tag
    loss = f"the loss ({tag}) at {counted(compared.losses, 'step')}" if tag else "no loss"
    steps, tensors = counted(compared.steps, "step"), counted(compared.tensors, "tensor")
    return f"compared: {steps}, {loss}, {tensors}"


def _shape_lines(comparison: ComparisonData) -> Iterator[str]:
    texts = []
    for tensor in comparison.other_shapes:
        texts.append(f"{tensor.name} {_size(tensor.baseline)} | {_size(tensor.candidate)}")
    if texts:
        yield f"different shape, not compared: {listed(texts, _LISTED)}"


def _size(size: tuple[int, ...] | int) -> str:
    return f"{size} elements" if isinstance(size, int) else str(size)


def _only_text(run: str, only: OnlyIn, other: Collection[str]) -> str:
    """Name the steps and tensors that a single run has.

    ``""`` if there are none.

    ``other`` names the tensors that both runs have in different shapes.
    """
    gradients: list[str] = []
    others: list[str] = []
    for name in only.tensors:
        if name in other:
            continue
        (gradients if name.endswith(GRADIENT) else others).append(name)
    parts = []
    if only.steps:
        parts.append(counted(only.steps, "step"))
    for noun, names in (("tensor", others), ("gradient", gradients)):
        if names:
            parts.append(f"{counted(len(names), noun)} ({listed(names, _LISTED)})")
    return f"only in the {run}: {', '.join(parts)}" if parts else ""


def _matched_line(rule: str, pairs: tuple[tuple[str, str], ...]) -> Iterator[str]:
    if pairs:
        texts = [f"{name_a} = {name_b}" for name_a, name_b in pairs]
        yield f"matched by {rule} (override it with --map): {listed(texts, _LISTED)}"


def _tensor_lines(comparison: ComparisonData) -> Iterator[str]:
    """Yield a line per tensor beyond tolerance in the first step that differs."""
    difference = comparison.shown_difference
    if difference is None:
        return
    for tensor in difference.tensors[:_LISTED]:
        yield f"  {tensor.distance:8.1e}  {both(tensor.baseline, tensor.candidate)}"
    if len(difference.tensors) > _LISTED:
        yield f"  and {len(difference.tensors) - _LISTED} more"


def _stage_lines(statistics: StatisticsComparison) -> Iterator[str]:
    """Yield lines on the divergence, then a line per stage of the shown step."""
    divergence: Divergence | None = statistics.divergence or statistics.open_divergence
    if divergence is not None:
        yield from _short_details(divergence)
    step, table = statistics.shown.step, statistics.shown.table
    marks = stage_marks(table, divergence, is_open=statistics.divergence is None)
    yield f"  {f'step {step}':10} compared  only one run  largest distance"
    downstream: list[str] = []
    is_after_first = False
    for summary in table.summaries():
        only = summary.only_baseline + summary.only_candidate
        if not summary.compared and not only:
            continue
        distance = "-" if summary.distance is None else f"{summary.distance:.1e}"
        mark = marks[summary.stage]
        if is_after_first:
            downstream.append(f"{summary.stage} {distance}")
            continue
        line = f"  {summary.stage:10} {summary.compared:8}  {only:12}  {distance:16}  {mark}"
        yield line.rstrip()
        is_after_first = mark.endswith(" first")
    if downstream:
        yield f"  downstream: {', '.join(downstream)}"


def _short_details(divergence: Divergence) -> Iterator[str]:
    """Explain a divergence: yield a row that differs, and the lines of code.

    The sentence counts the other rows.
    """
    called = []
    for detail in detail_lines(divergence._replace(tensors=divergence.tensors[:1])):
        if str(detail).startswith("called in "):
            called.append(str(detail))
        else:
            yield f"  {detail}"
    if called:
        yield f"  {', '.join(called)}"
