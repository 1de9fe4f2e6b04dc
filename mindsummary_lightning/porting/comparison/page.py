"""One self-contained HTML page about a comparison of two runs; it opens without a network and holds no script."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.image_grid import encode_png
from mindsummary_lightning.porting.comparison.chain_parts import Chain
from mindsummary_lightning.porting.comparison.chain_words import (
    around,
    both,
    link_rows,
    module_text,
    row_text,
)
from mindsummary_lightning.porting.comparison.distances import Floats
from mindsummary_lightning.porting.comparison.name_blocks import GRADIENT
from mindsummary_lightning.porting.comparison.result import TRENDS, Comparison
from mindsummary_lightning.values.text import Phrase, utf8_text

_WIDTH, _CURVE, _MARGIN = 900, 220, 72
_MAX_POINTS, _MAX_COLUMNS, _MAX_ROWS = 900, 400, 400
_ROW = 14  # pixels
_LONGEST_NAME = 38
_DECADES = 7  # of distances in the map, the last of them 1
# From "the same" to "entirely different", readable in light and dark and by the colour-blind.
_COLOURS = np.array(
    [[49, 92, 140], [86, 150, 160], [170, 190, 130], [238, 190, 80], [230, 130, 50], [190, 40, 60]]
)
_COLOUR_TEXTS = ("1e-7", "2e-6", "4e-5", "6e-4", "1e-2", "1, inf, nan")


def comparison_page(comparison: Comparison, is_chinese: bool = False) -> str:
    """The page of a comparison, as HTML; in Chinese if asked for."""
    title = f"{os.path.basename(comparison.a)} | {os.path.basename(comparison.b)}"
    return utf8_text(  # a name of a directory may be none
        f'<!DOCTYPE html>\n<html lang="{"zh-CN" if is_chinese else "en"}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_file('page.css')}</style></head>"
        f"<body>{''.join(_parts(comparison, is_chinese))}</body></html>\n"
    )


def _file(name: str) -> str:
    return (files("mindsummary_lightning.porting.comparison") / name).read_text(encoding="utf-8")


def _parts(comparison: Comparison, is_chinese: bool) -> Iterator[str]:
    chinese = json.loads(_file("page_zh.json")) if is_chinese else {}

    def say(text: str, *values: object) -> str:
        return escape((text if isinstance(text, Phrase) else Phrase(text, *values)).said(chinese))

    yield f"<h1>{say(comparison.verdict.replace('_', ' '))}</h1>"
    yield f'<p class="verdict {comparison.verdict}">{say(comparison.sentence)}</p>'
    compared = say("steps compared: {}; tensors: {}; losses: {}", *comparison.compared.values())
    yield f'<p class="small">a: {escape(comparison.a)}<br>b: {escape(comparison.b)}<br>{compared}</p>'
    for run, alone in comparison.alone.items():
        if alone.steps or alone.tensors:
            yield f"<p>{say('steps in {} alone, not compared: {}; tensors: {}', run, alone.steps, alone.tensors)}</p>"
    if comparison.chain is not None:
        chain, limit = comparison.chain, comparison.tolerance.row
        yield f"<h2>{say('The chain of step {}', chain.steps[-1])}</h2>"
        if chain.part is not None:
            text = "\n".join(map(say, around(chain.part)))
            yield f'<pre class="scroll">{text}</pre>'
        heads = ("", *map(say, ("compared", "in a alone", "in b alone", "farthest")), "")
        links = [
            (say(name), *numbers, say(mark)) for name, *numbers, mark in link_rows(chain, limit)
        ]
        yield _table("", heads, links)
        if chain.calls.a.calls:
            note = "Modules as they finished: green agrees or is no difference, grey is apart or not paired."
            yield f'<p class="small">{say(note)}</p><div class="chain">{_tree(chain, say, limit)}</div>'
        if chain.outputs.size > 1:
            legend = say("distance of the outputs along the chain, logarithmic; dashed: tolerance")
            yield _distance_curve(
                legend, np.arange(chain.outputs.size), chain.outputs, limit, say("call")
            )
    yield from (f"<p>{say(hint.text)}</p>" for hint in comparison.hints)
    unmatched = [
        (side, name)
        for side in "ab"
        for name in comparison.unmatched[side]
        if not name.endswith(GRADIENT)
    ]
    yield _table(say("Tensors of one run only"), (say("run"), say("tensor")), unmatched)
    yield _table(say("Paired by their first numbers"), ("a", "b"), comparison.by_value)
    yield _table(say("Paired by their place alone"), ("a", "b"), comparison.guessed)
    settings = [(name, *values) for name, values in comparison.settings.items()]
    yield _table(say("Settings that differ"), ("", "a", "b"), settings)
    if comparison.losses.size:
        yield f"<h2>{escape(comparison.alignment.loss_tag or 'loss')}</h2>"
        yield '<p class="small"><span class="key ka">a</span> <span class="key kb">b</span></p>'
        yield _curves(comparison, say("step"))
        legend, steps = (
            say("distance of the losses, logarithmic; dashed: tolerance"),
            comparison.alignment.loss_steps,
        )
        yield _distance_curve(
            legend, steps, comparison.losses, comparison.tolerance.loss, say("step")
        )
    if comparison.mode == "exact" and np.isfinite(comparison.distances).any():
        yield f"<h2>{say('Distance of every tensor at every step')}</h2>" + _map(
            comparison, say("step")
        )
        note = "Compared are minimum, maximum and mean of histograms: permuted or transposed weights look the same."
        yield f'<p class="small">{say(note)}</p>'
    if (first := comparison.first_difference) and (
        comparison.chain is None or comparison.chain.part is None
    ):
        tensors = [(f"{tensor.distance:.1e}", tensor.a, tensor.b) for tensor in first.tensors]
        yield _table(say("At step {}", first.step), (say("distance"), "a", "b"), tensors)
    known = (
        (TRENDS[name[:-2]], name[-1], x) for name, x in comparison.trend.items() if x is not None
    )
    yield _table(
        say("Trends"),
        ("", ""),
        [(f"{say(name)} {run}", f"{value:.4g}") for name, run, value in known],
    )
    for kind, differences in (("scalar", comparison.scalars), ("tensor", comparison.whole_tensors)):
        rows = [(tag, f"{value:.1e}") for tag, value in list(differences.items())[:20]]
        yield _table(
            say(f"Other {kind}s: largest difference"), (say(kind), say("difference")), rows
        )


def _tree(chain: Chain, say: Callable[..., str], limit: float) -> str:
    """The calls, each with those in it behind; the one where the chain parts is open with all around it."""
    both_calls, calls, parents = chain.calls, chain.calls.a.calls, chain.calls.a.parents
    row = chain.part.tensors[0] if chain.part and chain.part.place else None
    at = next(
        (
            place
            for place, x in enumerate(calls)
            if row and (x.name, x.number) == (row.a.name, row.a.call)
        ),
        -1,
    )
    distances = dict(zip(sorted(both_calls.partner), chain.outputs.tolist(), strict=True))
    inner = [""] * (len(calls) + 1)  # the last of those that nothing is around
    for index, call in enumerate(calls):
        text: str = module_text(call.name, call.kind)
        partner, far = both_calls.partner.get(index), distances.get(index, np.inf)
        if partner is None:
            text = Phrase("{}: not paired", text)
        else:
            text = both(text, module_text(*both_calls.b.calls[partner][:2]))
            text = (
                Phrase("{}: counts as no difference", text)
                if np.isnan(far)
                else Phrase("{}: {:.1e}", text, far)
            )
        state = (
            "agrees" if not far > limit or (chain.part is None and partner is not None) else "apart"
        )
        if row and index == at:
            text, state = Phrase("{}; {}", text, row_text(row)), "first"
        label = f'<span class="{state}">{say(text)}</span>'
        is_open = index == at or at in both_calls.a.within[index]
        folded = f"<details{' open' * is_open}><summary>{label}</summary>{inner[index]}</details>"
        around = parents[index]
        inner[-1 if around is None else around] += folded if inner[index] else f"<div>{label}</div>"
    return inner[-1]


def _table(title: str, heads: tuple[str, ...], rows: Any) -> str:
    """A table below its title; nothing without rows."""
    title = title and f"<h2>{title}</h2>"
    top = "".join(f"<th>{head}</th>" for head in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'{title}<div class="scroll"><table><tr>{top}</tr>{body}</table></div>' if body else ""


def _curves(comparison: Comparison, unit: str) -> str:
    losses = comparison.alignment.losses
    finite = losses[np.isfinite(losses)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    high = high if high > low else low + 1.0
    curves = dict(zip("ab", (losses - low) / (high - low), strict=True))
    return _chart(comparison.alignment.loss_steps, curves, f"{high:.4g}", f"{low:.4g}", unit)


def _distance_curve(
    legend: str, steps: NDArray[np.int64], distances: Floats, tolerance: float, unit: str
) -> str:
    limit = _CURVE * (1 - float(_height(np.array(tolerance))))
    line = f'<line class="limit" x1="{_MARGIN}" x2="{_WIDTH}" y1="{limit:.1f}" y2="{limit:.1f}"/>'
    chart = _chart(steps, {"d": _height(distances)}, "1", f"1e-{_DECADES}", unit, line)
    return f'<p class="small"><span class="key kd">{legend}</span></p>{chart}'


def _chart(
    steps: NDArray[np.int64],
    curves: dict[str, Floats],
    top: str,
    bottom: str,
    unit: str,
    lines: str = "",
) -> str:
    lines += "".join(_line(steps, heights, name) for name, heights in curves.items())
    return (
        f'<div class="scroll"><svg viewBox="0 0 {_WIDTH} {_CURVE + 20}" role="img">'
        f'<rect class="axis" x="{_MARGIN}" y="0" width="{_WIDTH - _MARGIN}" height="{_CURVE}" fill="none"/>'
        f'<text x="{_MARGIN - 4}" y="10" text-anchor="end">{top}</text>'
        f'<text x="{_MARGIN - 4}" y="{_CURVE}" text-anchor="end">{bottom}</text>'
        f"{lines}{_step_axis(steps, _CURVE + 14, unit)}</svg></div>"
    )


def _step_axis(steps: NDArray[np.int64], y: float, unit: str, left: float = _MARGIN) -> str:
    first, last = int(steps[0]), int(steps[-1])
    texts = f'<text x="{left}" y="{y}">{unit} {first}</text>'
    return texts + f'<text x="{_WIDTH}" y="{y}" text-anchor="end">{last}</text>'


def _height(distances: Floats) -> Floats:
    """Distances as heights between 0 and 1, by their logarithm."""
    with np.errstate(divide="ignore"):
        return np.clip(np.log10(distances) / _DECADES + 1, 0, 1)


def _starts(size: int, most: int) -> NDArray[np.int64]:
    """Where stretches of neighbours begin that are drawn as one, no more than ``most``."""
    return np.arange(min(size, most)) * size // min(size, most)


def _line(steps: NDArray[np.int64], heights: Floats, name: str) -> str:
    """A curve of heights between 0 and 1; of many points the greatest of each stretch."""
    starts, first, last = _starts(steps.size, _MAX_POINTS), int(steps[0]), int(steps[-1])
    tops = np.fmax.reduceat(np.where(np.isfinite(heights), heights, np.nan), starts)
    points = [
        (
            _MARGIN + (_WIDTH - _MARGIN) * (step - first) / max(1, last - first),
            _CURVE * (1 - height),
        )
        for step, height in zip(steps[starts].tolist(), tops.tolist(), strict=True)
        if not np.isnan(height)
    ]
    if len(points) == 1:  # a line of one point is not seen
        points = [(x, y) for at, y in points for x in (at - 4, at + 4)]
    return f'<polyline class="{name}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def _map(comparison: Comparison, unit: str) -> str:
    """A row per tensor, a column per step or stretch of steps, coloured by the largest distance."""
    alignment, distances = comparison.alignment, comparison.distances
    rows = _starts(len(distances), _MAX_ROWS)
    largest = np.fmax.reduceat(
        np.fmax.reduceat(distances, rows), _starts(alignment.steps.size, _MAX_COLUMNS), axis=1
    )
    height, left = _ROW * len(rows), 250
    places = np.nan_to_num(_height(largest) * (len(_COLOURS) - 1)).round().astype(int)
    colours = np.where(np.isnan(largest)[:, :, None], 128, _COLOURS[places]).astype(np.uint8)
    picture = base64.b64encode(encode_png(colours)).decode()
    more = np.diff([*rows, len(distances)]) - 1
    labels = ""
    for index in range(0, len(rows), 1 if len(rows) <= 100 else 4):
        name = alignment.names.pairs[rows[index]].a + (f" +{more[index]}" if more[index] else "")
        name = name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"
        labels += (
            f'<text x="{left - 6}" y="{_ROW * index + 11}" text-anchor="end">{escape(name)}</text>'
        )
    key = " ".join(
        f'<span class="chip" style="background:rgb{(*colour,)}"></span>{text}'
        for colour, text in zip(_COLOURS.tolist(), _COLOUR_TEXTS, strict=True)
    )
    mark = ""
    if first := comparison.first_difference:
        at = int(np.searchsorted(alignment.steps, first.step))
        x = left + (_WIDTH - left) * at / alignment.steps.size
        mark = f'<line class="d" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>'
    return (
        f'<p class="small">{key}</p><div class="scroll"><svg viewBox="0 0 {_WIDTH} {height + 20}" role="img">'
        f'<image x="{left}" y="0" width="{_WIDTH - left}" height="{height}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="data:image/png;base64,{picture}"/>{labels}{mark}'
        f"{_step_axis(alignment.steps, height + 14, unit, left)}</svg></div>"
    )
