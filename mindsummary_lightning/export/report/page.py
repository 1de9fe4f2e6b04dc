"""The page: what of which runs stands where."""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from mindsummary_lightning.export.lineage_text import lineage_facts
from mindsummary_lightning.export.report.curves import curve_chart
from mindsummary_lightning.export.report.distributions import MAX_RIDGES, ridge_chart
from mindsummary_lightning.export.report.surfaces import surface_chart
from mindsummary_lightning.fileio.replace import replace_file
from mindsummary_lightning.reading.results import ScalarSeries
from mindsummary_lightning.reading.summary_reader import SummaryReader

__all__ = ["write_report"]

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f5f3f", "#444444")
_MAX_IMAGES = 3  # of one tag and run: first, middle, last
_KINDS_OF_PICTURES = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"BM": "bmp", b"RIFF": "webp"}
_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;color:#1c1f24;background:#fff;max-width:1400px;margin:0 auto;padding:24px}
h1{font-size:22px;margin:0 0 4px}
h2{font-size:17px;margin:34px 0 10px;border-bottom:1px solid #d9dde3;padding-bottom:4px}
h3{font-size:13px;margin:0 0 6px;font-weight:600;overflow-wrap:anywhere}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(400px,1fr));gap:16px}
.card{border:1px solid #e3e6ea;border-radius:8px;padding:12px}
.runs{display:flex;flex-wrap:wrap;gap:6px 20px;margin:12px 0}
.chip{display:inline-block;width:10px;height:10px;border-radius:5px;margin-right:6px}
.small,.none{color:#667;font-size:12px}
.chart,.surface{width:100%;height:auto;display:block}.surface{max-width:320px}.grid{stroke:#eceef1}
.tick{font-size:10.5px;fill:#667}.star{font-size:20px;fill:#fff;stroke:#111;stroke-width:.6}
table{border-collapse:collapse;font-size:13px}th,td{text-align:left;padding:4px 14px 4px 0;
border-bottom:1px solid #eceef1;vertical-align:top;overflow-wrap:anywhere;max-width:420px}
.differs td{font-weight:600;background:#fff8e6}
.pictures{display:flex;flex-wrap:wrap;gap:8px}figure{margin:0}
.pictures img{max-width:100%;min-width:96px;max-height:240px;image-rendering:pixelated;border:1px solid #e3e6ea}
"""


@dataclass(frozen=True, slots=True)
class _Run:
    name: str
    colour: str
    reader: SummaryReader
    tags: dict[str, list[str]]
    scalars: dict[str, ScalarSeries]


def write_report(run_dirs: Sequence[str], path: str, progress: Callable[[int], object] = lambda count: None) -> None:
    """Write one HTML file about some runs: curves over each other, histograms, images, landscapes, lineage.

    Args:
        run_dirs: the runs; at least one.
        path: the file to write or replace.
        progress: called with 1 for each run that has been read and for each section.

    Raises:
        DamagedFileError: a file of a run is damaged.
        OSError: the page cannot be written.
    """
    runs = []
    for number, (name, run_dir) in enumerate(zip(_names(run_dirs), run_dirs, strict=True)):
        reader = SummaryReader(run_dir)
        runs.append(_Run(name, _COLOURS[number % len(_COLOURS)], reader, reader.tags(), reader.all_scalars()))
        progress(1)
    parts = ["<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Runs</title>", f"<style>{_STYLE}</style>"]
    for section in (_head, _curves, _histograms, _images, _landscapes, _lineage):
        parts += section(runs)
        progress(1)
    replace_file(path, "".join([*parts, "</html>\n"]).encode(), 0o644)


def _names(run_dirs: Sequence[str]) -> list[str]:
    paths = [os.path.abspath(run_dir) for run_dir in run_dirs]
    if len(paths) == 1:
        return [os.path.basename(paths[0])]
    common = os.path.commonpath(paths)
    return [os.path.relpath(path, common) for path in paths]


def _head(runs: Sequence[_Run]) -> Iterator[str]:
    yield f"<h1>{len(runs)} run{'' if len(runs) == 1 else 's'}</h1><div class=runs>"
    for run in runs:
        yield f"<div>{_chip(run)}<b>{_text(run.name)}</b> <span class=small>{_text(_extent(run))}</span></div>"
    yield "</div>"


def _extent(run: _Run) -> str:
    if not run.scalars:
        return "no scalars"
    last = max(int(series.steps[-1]) for series in run.scalars.values())
    begun = min(float(series.wall_times.min()) for series in run.scalars.values())
    return f"{last} steps, begun {datetime.fromtimestamp(begun):%Y-%m-%d %H:%M}"


def _curves(runs: Sequence[_Run]) -> Iterator[str]:
    tags = sorted({tag for run in runs for tag in run.scalars})
    cards = [
        _card(tag, curve_chart([(run.name, run.colour, run.scalars[tag]) for run in runs if tag in run.scalars]))
        for tag in tags
    ]
    yield from _section("Scalars", cards)


def _histograms(runs: Sequence[_Run]) -> Iterator[str]:
    cards = []
    for tag in sorted({tag for run in runs for tag in run.tags["histogram"]}):
        for run in runs:
            if tag in run.tags["histogram"]:
                steps = _spread([step for step, _, _ in run.reader.histograms(tag)], MAX_RIDGES)
                samples = [(step, value) for step, _, value in run.reader.histograms(tag) if step in steps]
                cards.append(_card(tag, ridge_chart(samples, run.colour), run))
    yield from _section("Histograms", cards)


def _images(runs: Sequence[_Run]) -> Iterator[str]:
    cards = []
    for tag in sorted({tag for run in runs for tag in run.tags["image"]}):
        for run in runs:
            if tag in run.tags["image"]:
                steps = _spread([step for step, _, _ in run.reader.images(tag)], _MAX_IMAGES)
                figures = [
                    f"<figure><img alt='' src='{_uri(image.encoded)}'><figcaption class=small>step {step}</figcaption>"
                    for step, _, image in run.reader.images(tag)
                    if step in steps
                ]
                cards.append(_card(tag, f"<div class=pictures>{'</figure>'.join(figures)}</figure></div>", run))
    yield from _section("Images", cards)


def _landscapes(runs: Sequence[_Run]) -> Iterator[str]:
    cards = []
    for run in runs:
        for found in run.reader.landscapes() if run.tags["loss_landscape"] else []:
            said = f"loss {found.z.min():.6g} to {found.z.max():.6g}, {found.x.size} x {found.y.size} points"
            cards.append(_card(found.tag, f"{surface_chart(found)}<p class=small>{said}</p>", run))
    yield from _section("Loss landscapes", cards)


def _lineage(runs: Sequence[_Run]) -> Iterator[str]:
    facts = [lineage_facts(run.reader.lineage()) for run in runs]
    names = list(dict.fromkeys(name for found in facts for name in found))
    if not names:
        return
    yield "<h2>Lineage</h2><table><tr><th></th>"
    yield from (f"<th>{_chip(run)}{_text(run.name)}</th>" for run in runs)
    yield "</tr>"
    for name in names:
        values = [found.get(name, "") for found in facts]
        differs = " class=differs" if len(set(values)) > 1 else ""
        yield f"<tr{differs}><th>{_text(name)}</th>{''.join(f'<td>{_text(value)}</td>' for value in values)}</tr>"
    yield "</table>"


def _section(name: str, cards: Sequence[str]) -> Iterator[str]:
    if cards:
        yield f"<h2>{name}</h2><div class=cards>"
        yield from cards
        yield "</div>"


def _card(title: str, body: str, run: _Run | None = None) -> str:
    owner = f" <span class=small>{_chip(run)}{_text(run.name)}</span>" if run else ""
    return f"<div class=card><h3>{_text(title)}{owner}</h3>{body}</div>"


def _chip(run: _Run) -> str:
    return f'<span class=chip style="background:{run.colour}"></span>'


def _spread(steps: Sequence[int], most: int) -> set[int]:
    """At most ``most`` of the steps, the first and the last among them."""
    if len(steps) <= most:
        return set(steps)
    return {steps[round(index * (len(steps) - 1) / (most - 1))] for index in range(most)}


def _uri(encoded: bytes) -> str:
    kind = next((kind for magic, kind in _KINDS_OF_PICTURES.items() if encoded.startswith(magic)), "png")
    return f"data:image/{kind};base64,{base64.b64encode(encoded).decode()}"


def _text(text: str) -> str:
    return html.escape(text)
