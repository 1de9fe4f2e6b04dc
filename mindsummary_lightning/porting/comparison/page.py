"""HTML page about a comparison, in a single file and without scripts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from importlib.resources import files

import numpy as np

from mindsummary_lightning.porting.comparison.call_tree import call_tree, output_distances
from mindsummary_lightning.porting.comparison.comparison_data import ComparisonData, OnlyIn
from mindsummary_lightning.porting.comparison.matching.tensor_names import GRADIENT
from mindsummary_lightning.porting.comparison.page_charts import (
    StepAxis,
    distance_curve,
    distance_map,
    loss_curves,
)
from mindsummary_lightning.porting.comparison.row_text import detail_lines, stage_marks
from mindsummary_lightning.porting.comparison.statistics_comparison import StatisticsComparison
from mindsummary_lightning.values.page_words import HTML_LANGUAGES, page_words
from mindsummary_lightning.values.text import Phrase, utf8_text

_PORTING = "mindsummary_lightning.porting"
_LISTED = 20


def comparison_page(comparison: ComparisonData, language: str = "en") -> str:
    """Return the page of a comparison as HTML.

    Args:
        comparison: what the page shows.
        language: ``"en"`` or ``"zh"``.

    Raises:
        ValueError: ``language`` has a different value.
    """
    words = page_words(language, _PORTING, "comparison/page_zh.json")
    page = _ComparisonPage(comparison, words)
    names = os.path.basename(comparison.baseline), os.path.basename(comparison.candidate)
    style = _file("page_base.css") + _file("comparison/page.css")
    return utf8_text(  # a name of a directory may be no text
        f'<!DOCTYPE html>\n<html lang="{HTML_LANGUAGES[language]}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(' | '.join(names))}</title><style>{style}</style></head>"
        f"<body><main>{''.join(page.sections())}</main></body></html>\n"
    )


def _file(name: str) -> str:
    return (files(_PORTING) / name).read_text(encoding="utf-8")


class _ComparisonPage:
    """Writes the sections of a comparison page in the page's language."""

    def __init__(self, comparison: ComparisonData, words: Mapping[str, str]) -> None:
        self._comparison, self._words = comparison, words

    def say(self, text: str, *values: object) -> str:
        """Return a text in the page's language, escaped."""
        phrase = text if isinstance(text, Phrase) else Phrase(text, *values)
        return escape(phrase.said(self._words))

    def sections(self) -> Iterator[str]:
        """Yield the page from top to bottom."""
        yield from self._head()
        yield from self._settings()
        if self._comparison.output_statistics is not None:
            yield from self._statistics(self._comparison.output_statistics)
        for note in self._comparison.notes:
            yield f"<p>{self.say(note.text)}</p>"
        yield from self._matches()
        yield from self._losses()
        yield from self._tensors()
        yield from self._other_values()

    def _head(self) -> Iterator[str]:
        comparison = self._comparison
        yield f"<h1>{self.say(comparison.verdict.replace('_', ' '))}</h1>"
        sentence = self.say(comparison.sentence)
        yield f'<p class="verdict {comparison.verdict}">{sentence}</p>'
        if comparison.next_step:
            yield f"<p>{self.say('Next: {}', comparison.next_step)}</p>"
        compared = self.say("steps compared: {}; tensors: {}; losses: {}", *comparison.compared)
        baseline = self.say("{}: {}", Phrase("baseline"), comparison.baseline)
        candidate = self.say("{}: {}", Phrase("candidate"), comparison.candidate)
        yield f'<p class="small">{baseline}<br>{candidate}<br>{compared}</p>'
        for run, only in self._only_in():
            tensors = len(only.tensors) - len(comparison.other_shapes)
            if only.steps or tensors:
                text = "only in {}, not compared: {} steps, {} tensors"
                yield f"<p>{self.say(text, run, only.steps, tensors)}</p>"

    def _only_in(self) -> Iterator[tuple[str, OnlyIn]]:
        baseline, candidate = self._names()
        yield baseline, self._comparison.only_in_baseline
        yield candidate, self._comparison.only_in_candidate

    def _statistics(self, statistics: StatisticsComparison) -> Iterator[str]:
        step = statistics.shown
        divergence = statistics.divergence or statistics.open_divergence
        yield f"<h2>{self.say('Output statistics of step {}', step.step)}</h2>"
        if divergence is not None:
            lines = "\n".join(self.say(line) for line in detail_lines(divergence))
            yield f"<pre>{lines}</pre>"
        yield self._stage_table(statistics)
        if step.pair.a.calls:
            note = (
                "Module calls in the order in which they finished. \u2713 agrees or has no effect; "
                "\u2248 differs as its inputs or weights do; "
                "\u00d7 differs first; \u2013 differs later or is not paired."
            )
            tree = call_tree(step, divergence, self.say)
            yield f'<p class="small">{self.say(note)}</p><div class="chain">{tree}</div>'
        outputs = output_distances(step)
        if outputs.size > 1:
            legend = self.say("distance of the outputs, logarithmic; dashed: tolerance")
            calls = StepAxis(np.arange(1, outputs.size + 1), self.say("call"))
            yield distance_curve(legend, outputs, self._comparison.tolerance.row, calls)

    def _stage_table(self, statistics: StatisticsComparison) -> str:
        table = statistics.shown.table
        divergence = statistics.divergence or statistics.open_divergence
        marks = stage_marks(table, divergence, is_open=statistics.divergence is None)
        baseline, candidate = self._names()
        heads = [
            self.say("stage"),
            self.say("compared"),
            _breakable(self.say("only in {}", baseline)),
            _breakable(self.say("only in {}", candidate)),
            self.say("largest distance"),
        ]
        rows = []
        for summary in table.summaries():
            distance = "-" if summary.distance is None else f"{summary.distance:.1e}"
            counts = summary.compared, summary.only_baseline, summary.only_candidate
            mark = marks[summary.stage]
            said = f"<br><strong>{self.say(mark)}</strong>" if mark else ""
            rows.append((self.say(summary.stage) + said, *counts, distance))
        return _table("", heads, rows)

    def _matches(self) -> Iterator[str]:
        comparison = self._comparison
        heads = self._name_heads()
        yield from self._other_shapes()
        other = {tensor.name for tensor in comparison.other_shapes}
        unmatched = []
        for run, only in self._only_in():
            for name in only.tensors:
                if not name.endswith(GRADIENT) and name not in other:
                    unmatched.append((escape(run), escape(name)))
        columns = [self.say("run"), self.say("tensor")]
        yield _table(self.say("Tensors of one run only"), columns, unmatched)
        yield _table(self.say("Matched by value"), heads, _escaped(comparison.matched_by_value))
        yield _table(
            self.say("Matched by position"), heads, _escaped(comparison.matched_by_position)
        )

    def _other_shapes(self) -> Iterator[str]:
        rows = []
        for tensor in self._comparison.other_shapes:
            shapes = self._size(tensor.baseline), self._size(tensor.candidate)
            rows.append((escape(tensor.name), *shapes))
        heads = [self.say("tensor"), *self._name_heads()]
        yield _table(self.say("Tensors with different shapes, not compared"), heads, rows)

    def _size(self, size: tuple[int, ...] | int) -> str:
        return self.say("{} elements", size) if isinstance(size, int) else str(size)

    def _settings(self) -> Iterator[str]:
        settings = [(name, *values) for name, values in self._comparison.settings.items()]
        heads = [self.say("setting"), *self._name_heads()]
        yield _table(self.say("Settings that differ"), heads, _escaped(settings))

    def _names(self) -> tuple[str, str]:
        """Return the names of both runs, or their paths if the names are equal."""
        paths = self._comparison.baseline, self._comparison.candidate
        names = tuple(os.path.basename(os.path.normpath(path)) for path in paths)
        return paths if names[0] == names[1] else (names[0], names[1])

    def _name_heads(self) -> list[str]:
        return [_breakable(escape(name)) for name in self._names()]

    def _losses(self) -> Iterator[str]:
        losses = self._comparison.alignment.losses
        if not losses.steps.size:
            return
        baseline, candidate = map(escape, self._names())
        title = escape(self._comparison.alignment.loss_tag or "loss")
        yield f"<h2>{title}</h2>"
        keys = f'<span class="key ka">{baseline}</span> <span class="key kb">{candidate}</span>'
        yield f'<p class="small">{keys}</p>'
        axis = StepAxis(losses.steps, self.say("step"))
        yield loss_curves(title, (baseline, candidate), losses.values, axis)
        legend = self.say("distance of the losses, logarithmic; dashed: tolerance")
        distances = self._comparison.distances.losses
        tolerance = self._comparison.tolerance.loss
        yield distance_curve(legend, distances, tolerance, axis)

    def _tensors(self) -> Iterator[str]:
        comparison = self._comparison
        difference = comparison.shown_difference
        distances = comparison.distances.tensors
        if np.isfinite(distances).any():
            first = None if difference is None else difference.step
            names = [pair.a for pair in comparison.alignment.names.pairs]
            axis = StepAxis(comparison.alignment.tensors.steps, self.say("step"))
            title = self.say("Distance of every tensor at every step")
            yield f"<h2>{title}</h2>"
            yield distance_map(title, names, distances, first, axis)
            note = (
                "Minimum, maximum and mean of histograms are compared: "
                "permuted or transposed weights look the same."
            )
            yield f'<p class="small">{self.say(note)}</p>'
        if difference is None or difference.stage is not None:
            return
        rows = []
        for tensor in difference.tensors:
            rows.append((f"{tensor.distance:.1e}", tensor.baseline, tensor.candidate))
        heads = [self.say("distance"), *self._name_heads()]
        yield _table(self.say("At step {}", difference.step), heads, _escaped(rows))

    def _other_values(self) -> Iterator[str]:
        comparison = self._comparison
        heads = [self.say("scalar"), self.say("distance")]
        title = self.say("Other scalars: largest distance")
        yield _table(title, heads, _escaped(_largest(comparison.scalars)))
        heads = [self.say("tensor"), self.say("distance")]
        title = self.say("Tensors recorded whole: largest distance")
        yield _table(title, heads, _escaped(_largest(comparison.whole_tensors)))


def _breakable(text: str) -> str:
    """Allow line breaks in text after signs that join words, such as dots."""
    return re.sub(r"(?<=[_/.-])", "<wbr>", text)


def _largest(distances: Mapping[str, float]) -> list[tuple[str, str]]:
    return [(name, f"{value:.1e}") for name, value in list(distances.items())[:_LISTED]]


def _escaped(rows: Iterable[Iterable[object]]) -> list[list[str]]:
    escaped = []
    for row in rows:
        escaped.append([escape(str(cell)) for cell in row])
    return escaped


def _table(title: str, heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Draw a table of escaped cells with a title; a table without rows is left out."""
    body = ""
    for row in rows:
        cells = "".join(f"<td>{cell}</td>" for cell in row)
        body += f"<tr>{cells}</tr>"
    if not body:
        return ""
    top = "".join(f'<th scope="col">{head}</th>' for head in heads)
    heading = f"<h2>{title}</h2>" if title else ""
    return f'{heading}<div class="scroll" tabindex="0"><table><tr>{top}</tr>{body}</table></div>'
