"""A comparison as text: ``print(comparison)``, and what ``mindsummary compare`` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mindsummary_lightning.comparison.chain_words import lines
from mindsummary_lightning.comparison.name_blocks import GRADIENT
from mindsummary_lightning.values.text import counted, listed

if TYPE_CHECKING:
    from mindsummary_lightning.comparison.result import Comparison

SETTINGS = "settings that differ"
_LISTED = 8


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """The lines of the text."""
    compared = comparison.compared
    for side, path in (("a", comparison.a), ("b", comparison.b)):
        yield f"{side}: {path}"
    tag = comparison.alignment.loss_tag
    loss = f"the loss ({tag}) at {counted(compared['losses'], 'step')}" if tag else "no loss"
    yield f"compared: {counted(compared['steps'], 'step')}, {loss}, {counted(compared['tensors'], 'tensor')}"
    for side, alone in comparison.alone.items():
        unmatched = comparison.unmatched[side]
        weights = [name for name in unmatched if not name.endswith(GRADIENT)]
        parts = [counted(alone.steps, "step")] if alone.steps else []
        for kind, names in (("tensor", weights), ("gradient", [name for name in unmatched if name not in weights])):
            if names:
                parts.append(f"{counted(len(names), kind)} ({listed(names, _LISTED)})")
        if parts:
            yield f"in {side} alone, not compared: {', '.join(parts)}"
    for how, matched in (("by its first numbers", comparison.by_value), ("by its place alone", comparison.guessed)):
        if matched:
            pairs = [f"{one} = {other}" for one, other in matched]
            yield f"paired {how} (--map decides): {listed(pairs, _LISTED)}"
    if comparison.settings:
        yield SETTINGS
        for name, (one, other) in comparison.settings.items():
            yield f"  {name}: {one} | {other}"
    yield comparison.sentence
    first = comparison.first_difference
    if comparison.chain is not None:
        yield from lines(comparison.chain)
    if first is not None and (comparison.chain is None or comparison.chain.part is None):
        for tensor in first.tensors[:_LISTED]:
            name = tensor.a if tensor.a == tensor.b else f"{tensor.a} = {tensor.b}"
            yield f"  {tensor.distance:8.1e}  {name}"
        if len(first.tensors) > _LISTED:
            yield f"  and {len(first.tensors) - _LISTED} more"
    for name, value in comparison.trend.items():
        if value is not None:
            yield f"  {name.replace('_', ' ')}: {value:.4g}"
    for hint in comparison.hints:
        yield f"- {hint.text}"
