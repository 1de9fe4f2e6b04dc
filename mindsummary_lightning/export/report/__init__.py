"""One self-contained HTML page about several runs, made by Jinja and Bokeh; it opens without a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mindsummary_lightning.export.output_directory import mode_of_runs
from mindsummary_lightning.fileio.replace import replace_file

_MISSING = "the report needs Bokeh and Jinja: pip install 'mindsummary-lightning[report]'"


def write_report(run_dirs: Sequence[str], path: str, progress: Callable[[int], object] = lambda count: None) -> None:
    """Write one HTML file about some runs: curves over each other, histograms, images, landscapes, graphs, lineage.

    Args:
        run_dirs: the runs; at least one.
        path: the file to write or replace.
        progress: called with 1 when the runs are read, when the figures are made, and when the file is written.

    Raises:
        DamagedFileError: a file of a run is damaged.
        ImportError: Bokeh or Jinja is not installed.
        OSError: the file cannot be written.
    """
    try:
        import jinja2
        from bokeh.embed import components
        from bokeh.resources import Resources
    except ImportError as error:
        raise ImportError(_MISSING) from error
    from mindsummary_lightning.export.report.contents import lineage_rows, open_runs, sections, single_values

    runs = open_runs(run_dirs)
    progress(1)
    found = sections(runs)
    figures = {figure.id: figure for cards in found.values() for card in cards for figure in card.figures}
    script, divisions = components(figures, wrap_script=False) if figures else ("", {})
    progress(1)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mindsummary_lightning.export.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    page = environment.get_template("report.html").render(
        runs=runs,
        sections=found,
        single_values=single_values(runs),
        lineage=lineage_rows(runs),
        divisions=divisions,
        figure_script=script,
        bokeh_scripts=Resources(mode="inline", components=["bokeh"]).js_raw if figures else [],
    )
    replace_file(path, page.encode(), mode_of_runs(run_dirs))
    progress(1)
