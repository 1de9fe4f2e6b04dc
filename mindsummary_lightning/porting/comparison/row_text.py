"""Writes rows, modules and pairs of names as text for a reader."""

from __future__ import annotations

from collections.abc import Iterator

from mindsummary_lightning.porting.comparison.divergence import Divergence, RowPair
from mindsummary_lightning.porting.comparison.pair_table import PairTable, Stage
from mindsummary_lightning.values.step_chain import OutputRow
from mindsummary_lightning.values.text import Phrase

_LISTED = 4


def both(name_a: str, name_b: str) -> str:
    """Write the names in both runs; equal names are written once."""
    return name_a if name_a == name_b else Phrase("{} = {}", name_a, name_b)


def module_text(name: str, kind: str) -> Phrase:
    """Write a module by name and class, or the training step."""
    if kind == "training step":
        return Phrase("the training step")
    return Phrase("{} ({})", name or Phrase("the network"), kind)


def row_text(row: OutputRow) -> Phrase:
    """Write a row's name with its input or output, call number and shape."""
    name = row.name or Phrase(row.link)
    if row.link == "forward":
        name = Phrase("{} of {}", Phrase(row.port), row.name or Phrase("the network"))
    path = Phrase(" at {}", row.path) if row.path else ""
    call = Phrase(" (call {})", row.call + 1) if row.call else ""
    return Phrase("{}{}{} {}", name, path, call, list(row.shape))


def pair_text(pair: RowPair) -> str:
    """Write a row by its names in both runs."""
    return both(row_text(pair.baseline), row_text(pair.candidate))


def is_only_in_one(pair: RowPair) -> str:
    """Name the only run that has a gradient; ``""`` if both runs have it."""
    has_baseline = pair.baseline.link != "weights"
    has_candidate = pair.candidate.link != "weights"
    if has_baseline == has_candidate:
        return ""
    return "baseline" if has_baseline else "candidate"


def detail_lines(divergence: Divergence) -> Iterator[Phrase]:
    """Yield the lines that explain a divergence.

    They are the last row that agrees, the rows that differ, and the code lines that called them.
    """
    if divergence.last_match is not None:
        match = divergence.last_match
        yield Phrase("last tensor that agrees, to {:.1e}: {}", match.distance, pair_text(match))
    for pair in divergence.tensors[:_LISTED]:
        run = is_only_in_one(pair)
        if run:
            yield Phrase("only in the {}: {}", Phrase(run), pair_text(pair))
        else:
            yield Phrase("differs by {:.1e}: {}", pair.distance, pair_text(pair))
    if len(divergence.tensors) > _LISTED:
        yield Phrase("and {} more", len(divergence.tensors) - _LISTED)
    if divergence.location is not None:
        yield from _lines_of_calls(
            divergence.location.line_baseline, divergence.location.line_candidate
        )


def _lines_of_calls(line_baseline: str, line_candidate: str) -> Iterator[Phrase]:
    if line_baseline:
        yield Phrase("called in the {} at {}", Phrase("baseline"), line_baseline)
    if line_candidate:
        yield Phrase("called in the {} at {}", Phrase("candidate"), line_candidate)


def stage_marks(
    table: PairTable, divergence: Divergence | None, *, is_open: bool
) -> dict[Stage, str]:
    """Return how every stage relates to a divergence: first, downstream or before.

    A stage before the first one may also differ, as weights do after an update that differs within
    its tolerance.
    """
    marks: dict[Stage, str] = {}
    is_downstream = False
    first = "exceeds first" if is_open else "diverges first"
    stage = None if divergence is None else divergence.stage
    if divergence is not None and stage == "forward" and divergence.location is None:
        stage = "loss"  # the row that differs where no output is compared
    for summary in table.summaries():
        mark = ""
        if summary.stage == stage:
            mark, is_downstream = first, True
        elif summary.exceeding:
            mark = "downstream" if is_downstream else "also differs"
        marks[summary.stage] = mark
    return marks
