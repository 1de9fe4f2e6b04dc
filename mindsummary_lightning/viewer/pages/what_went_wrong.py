"""HTML page that shows where the values of a run became NaN or infinite.

It shows the statistics of the parameters as a table whose cells are coloured, and the output
statistics of a recorded step, in the order of the step. Colours are never the only mark: a sign
marks values that are zero or not finite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from urllib.parse import quote, urlencode

import numpy as np
from numpy.typing import NDArray

from mindsummary_lightning.conversion.heat_map import colours_of, grouped, shaded_range
from mindsummary_lightning.errors import MindSummaryError
from mindsummary_lightning.reading.followed_run import FollowedRun
from mindsummary_lightning.reading.output_statistics import (
    OutputStatistics,
    origin_text,
    read_output_statistics,
    row_name,
)
from mindsummary_lightning.reading.parameter_tables import (
    ParameterTable,
    loss_at,
    read_parameter_table,
)
from mindsummary_lightning.reading.thinning import every_nth
from mindsummary_lightning.values.step_chain import OutputRow
from mindsummary_lightning.values.text import Phrase
from mindsummary_lightning.viewer.api import ApiRequest, EncodedAnswer, required
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.page_frame import (
    PageWords,
    back_link,
    is_chinese,
    missing_run,
    page_of,
    unreadable_run,
)

_MAX_ROWS = 120  # of the heat map, as in the report; of more, layers and groups of layers
_MAX_STEPS = 40  # columns of the heat map: more do not fit beside names on a screen
MAX_MODULES = 600  # rows of a step; those around the first that is not finite
_LONGEST = 48  # characters of a name
_LOST, _NONE = "\u00d7", "\u2013"  # signs of what is not finite, and of no number
_STAGES = {  # of a step, in words
    "data": "batch",
    "gradients": "gradients",
    "clipped": "clipped gradients",
    "update": "after the update",
    "settings": "optimizer settings",
}
_SHOWN = {  # statistics of a row, in words
    "rms": "RMS",
    "minimum": "minimum",
    "maximum": "maximum",
    "zeros": "zeros",
    "non_finite": "not finite",
}


def what_went_wrong(runs: LoadedRuns, request: ApiRequest) -> EncodedAnswer:
    """Answer with the HTML page about the first non-finite values of a run.

    The query parameter ``train_id`` names the run. ``step`` selects the step whose output
    statistics are shown.
    """
    words = PageWords(is_chinese(request))
    train_id = required(request, "train_id")
    run = runs.run(train_id)
    if run is None:
        raise missing_run("train_id", train_id, words)
    try:
        parameters, outputs = read_parameter_table(run), read_output_statistics(run)
    except (MindSummaryError, OSError) as error:
        raise unreadable_run(error, words) from error
    title = words("What went wrong: {}", _shown_name(runs, train_id))
    parts = [
        back_link([train_id], words),
        f"<main><h1>{title}</h1>",
        *_summary(run, parameters, outputs, words),
        *(() if outputs is None else _output_statistics(outputs, request, words)),
        *(() if parameters is None else _heat_map(parameters, words)),
        "</main>",
    ]
    page = page_of(_shown_name(runs, train_id), "".join(parts), words)
    return EncodedAnswer(page, "text/html; charset=utf-8")


def _shown_name(runs: LoadedRuns, train_id: str) -> str:
    return train_id.removeprefix("./") or runs.name


def _summary(
    run: FollowedRun,
    parameters: ParameterTable | None,
    outputs: OutputStatistics | None,
    words: PageWords,
) -> Iterator[str]:
    """Yield an HTML sentence about output statistics, and another about parameters."""
    if parameters is None and outputs is None:
        none = words("This run has no statistics of parameters and no recorded step.")
        yield f'<p class="verdict">{none}</p>'
    if outputs is not None:
        first = outputs.first_non_finite()
        if first is None:
            fine = words("All values of the recorded steps are finite.")
            yield f'<p class="verdict fine">{fine}</p>'
        else:
            said = words("First value that is not finite: {}.", origin_text(*first))
            yield f'<p class="verdict bad">{said}</p>'
    if parameters is not None:
        yield _parameter_sentence(run, parameters, words)


def _parameter_sentence(run: FollowedRun, table: ParameterTable, words: PageWords) -> str:
    first = table.first_non_finite()
    if first is None:
        fine = words("All gradients and weights of {} recorded steps are finite.", table.steps.size)
        return f'<p class="verdict fine">{fine}</p>'
    kind = Phrase("gradient" if first.kind == "gradient" else "weight")
    where = kind, first.parameter, first.step
    loss = loss_at(run, first.step)
    if loss is None:
        said = words("First not finite: {} of {} at step {}.", *where)
    else:
        text = "First not finite: {} of {} at step {}. The loss of that step is {:.6g}."
        said = words(text, *where, loss)
    return f'<p class="verdict bad">{said}</p>'


def _heat_map(table: ParameterTable, words: PageWords) -> Iterator[str]:
    """Yield HTML of a table of all gradients: a row per parameter, a column per step."""
    columns = _chosen_steps(table)
    logarithms = table.gradient_logarithms()[columns]
    names, numbers = grouped(table.parameters, logarithms.T, _MAX_ROWS)
    steps = table.steps[columns].tolist()
    low, high = shaded_range(numbers)
    colours = colours_of(numbers, low, high)
    yield f"<h2>{words('Gradients by parameter and step')}</h2>"
    yield _legend(low, high, words)
    caption = words("Gradients by parameter and step")
    yield f'{_scrolled(caption)}<table class="heat">'
    heads = "".join(f'<th scope="col"><span>{step}</span></th>' for step in steps)
    yield f'<thead><tr><th scope="col">{words("step")}</th>{heads}</tr></thead><tbody>'
    for name, row, shades in zip(names, numbers.tolist(), colours.tolist(), strict=True):
        cells = (
            _cell(name, step, number, shade, words)
            for step, number, shade in zip(steps, row, shades, strict=True)
        )
        head = f'<th scope="row" title="{escape(name)}"><bdi>{escape(_short(name))}</bdi></th>'
        yield f"<tr>{head}{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _chosen_steps(table: ParameterTable) -> NDArray[np.intp]:
    """Choose the steps of the heat map, among them the first non-finite step."""
    chosen = every_nth(table.steps.size, _MAX_STEPS)
    first = table.first_non_finite()
    if first is None:
        return chosen
    at = np.searchsorted(table.steps, first.step)
    return np.union1d(chosen, [at]).astype(np.intp)


def _cell(name: str, step: int, number: float, shade: Sequence[int], words: PageWords) -> str:
    """Make a coloured table cell with its value as tooltip, and a sign for 0 or inf."""
    if number == np.inf:
        sign, kind, value = _LOST, ' class="lost"', words("not finite")
    elif number == -np.inf:
        sign, kind, value = "0", ' class="zero"', words("zero")
    elif np.isnan(number):
        sign, kind, value = "", "", words("no gradient")
    else:
        sign, kind, value = "", "", f"{10.0**number:.3g}"
    colour = "".join(f"{channel:02x}" for channel in shade)
    title = escape(f"{name}, {step}: ") + value
    return f'<td{kind} style="background:#{colour}" title="{title}">{sign}</td>'


def _legend(low: float, high: float, words: PageWords) -> str:
    shades = colours_of(np.linspace(low, high, 12)[None], low, high)[0].tolist()
    squares = "".join(
        f'<i style="background:#{red:02x}{green:02x}{blue:02x}"></i>' for red, green, blue in shades
    )
    ends = (f"{10.0**low:.1e}", f"{10.0**high:.1e}")
    signs = words("{} not finite, {} zero", _LOST, 0)
    said = words("Root mean square of the gradient:")
    return f'<p class="small key">{said} {ends[0]} {squares} {ends[1]}; {signs}</p>'


def _output_statistics(
    table: OutputStatistics, request: ApiRequest, words: PageWords
) -> Iterator[str]:
    """Yield HTML of the table of output statistics of a step."""
    first = table.first_non_finite()
    step = _asked_step(table, request.first("step"), None if first is None else first[0])
    rows, values = table.rows_at(step)
    origin = first[1] if first is not None and first[0] == step else None
    begin = _begin(rows, origin)
    chosen = slice(begin, begin + MAX_MODULES)
    title = words("Output statistics of step {}", step)
    yield f"<h2>{title}</h2>{_step_links(table, step, request, words)}"
    if len(rows) > MAX_MODULES:
        shown = len(rows[chosen])
        yield f'<p class="small">{words("{} of {} rows are shown.", shown, len(rows))}</p>'
    yield f'{_scrolled(title)}<table class="modules">'
    heads = ("stage", "tensor", "kind", "shape", *_SHOWN.values(), "line")
    yield "<thead><tr>"
    yield "".join(f'<th scope="col">{words(head)}</th>' for head in heads)
    yield "</tr></thead><tbody>"
    places = [table.columns.index(name) for name in _SHOWN]
    for row, numbers in zip(rows[chosen], values[chosen][:, places].tolist(), strict=True):
        yield _module_line(row, numbers, words, is_origin=row is origin)
    yield "</tbody></table></div>"


def _asked_step(table: OutputStatistics, asked: str | None, first: int | None) -> int:
    """Return the requested step, or the first failed step, or the last step."""
    known = table.steps.tolist()
    if asked is not None and asked.isdecimal() and int(asked) in known:
        return int(asked)
    return known[-1] if first is None else first


def _begin(rows: Sequence[OutputRow], origin: OutputRow | None) -> int:
    """Return the index of the first shown row, so that ``origin`` is in the middle."""
    if origin is None:
        return 0
    at = rows.index(origin) - MAX_MODULES // 2
    return max(0, min(at, len(rows) - MAX_MODULES))


def _step_links(table: OutputStatistics, step: int, request: ApiRequest, words: PageWords) -> str:
    steps = table.steps[every_nth(table.steps.size, _MAX_STEPS)].tolist()
    if len(steps) < 2:
        return ""
    asked = {"train_id": required(request, "train_id"), "language": request.first("language") or ""}
    links = []
    for one in steps:
        address = escape(f"?{urlencode({**asked, 'step': one}, quote_via=quote)}")
        current = ' aria-current="true"' if one == step else ""
        links.append(f'<a href="{address}"{current}>{one}</a>')
    return f'<p class="small steps">{words("steps")}: {" ".join(links)}</p>'


def _module_line(
    row: OutputRow, numbers: Sequence[float], words: PageWords, *, is_origin: bool
) -> str:
    *statistics, non_finite = numbers
    is_bad = non_finite > 0
    shape = " \u00d7 ".join(map(str, row.shape))
    texts = [
        words(_STAGES.get(row.link, row.link)),
        words.phrase(row_name(row)),
        words(row.kind),
        shape,
    ]
    cells = "".join(f"<td>{text}</td>" for text in texts)
    shown = "".join(f'<td class="number">{_number(number)}</td>' for number in statistics)
    count = f"{_LOST} {non_finite:.0f}" if is_bad else "0"
    kind = "origin" if is_origin else "lost" if is_bad else ""
    mark = f' class="{kind}"' if kind else ""
    return (
        f'<tr{mark}>{cells}{shown}<td class="number">{count}</td><td>{escape(row.line)}</td></tr>'
    )


def _number(number: float) -> str:
    return _NONE if np.isnan(number) else f"{number:.4g}"


def _scrolled(name: str) -> str:
    """Return the start tag of a ``div`` that scrolls separately, also by keyboard."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">'


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
