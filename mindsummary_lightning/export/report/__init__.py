"""Write an HTML report about several runs, which opens without a network.

Jinja and Bokeh make the page.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mindsummary_lightning.errors import missing_packages
from mindsummary_lightning.export.output_directory import mode_of_runs
from mindsummary_lightning.fileio.replace import replace_file
from mindsummary_lightning.values.page_words import HTML_LANGUAGES, page_words
from mindsummary_lightning.values.text import Phrase, utf8_text

if TYPE_CHECKING:
    from mindsummary_lightning.export.report.contents import Card

_FIGURES_PERCENT, _PAGE_PERCENT = 90, 10  # of the work, as its progress is told


def write_report(
    run_dirs: Sequence[str],
    path: str,
    progress: Callable[[int], object] = lambda percent: None,
    announce: Callable[[int], object] = lambda size: None,
    *,
    by: str | None = None,
    best: int | None = None,
    group: str | None = None,
    language: str = "en",
) -> dict[str, str]:
    """Write an HTML file about several runs: curves, images, histograms, settings.

    It also has loss landscapes and computational graphs. Curves of the runs are overlaid.

    For more than eight runs, or with ``by``, ``best`` or ``group``, the page compares many runs: it
    has a table with a row for each run, the best first, parallel coordinates of the settings that
    differ, and curves.

    Args:
        run_dirs: the runs; at least one run. A run that is damaged or cannot be read is left out,
            unless this is so for every run.
        path: the file to write or replace.
        progress: called with percentages of the work, as they are done; their sum is 100.
        announce: called once, before the page is made, with its approximate size in bytes.
        by: how runs are compared: a scalar such as ``val/loss`` (by its best value), or
            ``last:val/loss``.
        best: number of runs whose curves are drawn, from the best run on.
        group: name of a setting; curves of runs with the same value of it have the same colour.
        language: language of the page, ``"en"`` or ``"zh"``.

    Returns:
        Why runs are left out, by name of the run; the page shows these texts too.

    Raises:
        DamagedFileError: every run is damaged.
        ImportError: Bokeh or Jinja is not installed.
        LineageSearchConditionParamError: no run has the scalar ``by`` or the setting ``group``.
        OSError: the file cannot be written, or no run can be read.
        ValueError: ``language`` has a different value.
    """
    words = page_words(language, __name__, "report_zh.json")

    def say(text: str, *values: object) -> str:
        phrase = text if isinstance(text, Phrase) else Phrase(text, *values)
        return phrase.said(words)

    try:
        import jinja2
        from bokeh.embed import components
        from bokeh.resources import Resources
    except ImportError as error:
        raise missing_packages("the report", "bokeh", "contourpy", "jinja2") from error
    from mindsummary_lightning.export.report import contents
    from mindsummary_lightning.export.report.sweep import MANY, make_sweep
    from mindsummary_lightning.reading.decode import OpenFiles

    sweep = None
    if len(run_dirs) > MANY or by or best or group:
        sweep = make_sweep(run_dirs, by, best, group, say)
        runs, problems = sweep.drawn, sweep.problems
    else:
        runs, problems = contents.open_runs(run_dirs)
    announce(contents.expected_bytes(runs))
    with OpenFiles() as files:
        if sweep is None:
            plan = contents.planned_cards(runs, files, say)
        else:
            plan = [("Scalars", make) for make in contents.curve_cards(runs)]
        drawn = _draw_cards(plan, components, progress)
    sections = drawn.sections
    is_drawn = any(card.figures or card.curves for cards in sections.values() for card in cards)
    bokeh_scripts: list[str] = []
    if is_drawn:
        bokeh_scripts = Resources(mode="inline", components=["bokeh", "bokeh-api"]).js_raw
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mindsummary_lightning.export.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    page = environment.get_template("report.html").render(
        language=HTML_LANGUAGES[language],
        say=say,
        directory=os.path.basename(contents.common_directory(run_dirs)),
        sweep=sweep,
        written=f"{datetime.now():%Y-%m-%d %H:%M}",
        runs=runs,
        problems=problems,
        sections=sections,
        single_values={} if sweep else contents.single_values(runs),
        lineage=[] if sweep else contents.lineage_rows(runs),
        divisions=drawn.divisions,
        figure_scripts=drawn.scripts,
        usual=contents.usual_value,
        bokeh_scripts=bokeh_scripts,
    )
    replace_file(path, utf8_text(page).encode(), mode_of_runs(run.content.run_dir for run in runs))
    progress(_PAGE_PERCENT)
    return problems


@dataclass(slots=True)
class _DrawnCards:
    """The boxes of the report by section, with the scripts and HTML of their figures."""

    sections: dict[str, list[Card]] = field(default_factory=dict)
    scripts: list[str] = field(default_factory=list)
    divisions: dict[str, str] = field(default_factory=dict)


def _draw_cards(
    plan: Sequence[tuple[str, Callable[[], Card]]],
    components: Callable[..., Any],
    progress: Callable[[int], object],
) -> _DrawnCards:
    """Make the boxes of the report, and the scripts and HTML of their Bokeh figures.

    The figures of each box are a separate Bokeh document, because Bokeh goes through the whole
    document for each figure in it.
    """
    drawn = _DrawnCards()
    done = 0
    for number, (title, make) in enumerate(plan, 1):
        card = make()
        drawn.sections.setdefault(title, []).append(card)
        if card.figures:
            figures = {figure.id: figure for figure in card.figures}
            script, parts = components(figures, wrap_script=False)
            drawn.scripts.append(script)
            drawn.divisions.update(parts)
        percent = _FIGURES_PERCENT * number // len(plan)
        progress(percent - done)
        done = percent
    return drawn
