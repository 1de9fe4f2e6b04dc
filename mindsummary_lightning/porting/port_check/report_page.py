"""The HTML page of a port check, without scripts: findings and module tree."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from mindsummary_lightning.porting.port_check.findings import NotPaired, PortFinding
from mindsummary_lightning.values.page_words import HTML_LANGUAGES, page_words
from mindsummary_lightning.values.text import Phrase, utf8_text

if TYPE_CHECKING:
    from mindsummary_lightning.porting.port_check.port_report import PortReport

_MOST_CONSEQUENCES = 40  # of a finding, on the page
_PORTING = "mindsummary_lightning.porting"


def report_page(report: PortReport, language: str) -> str:
    """Return the page of a report as HTML.

    Args:
        report: of a check.
        language: ``"en"`` or ``"zh"``.

    Raises:
        ValueError: ``language`` has a different value.
    """
    page = _Page(report, page_words(language, _PORTING, "port_check/report_zh.json"))
    title = page.say("Check of a port")
    style = _file("page_base.css") + _file("port_check/report.css")
    return utf8_text(
        f'<!DOCTYPE html>\n<html lang="{HTML_LANGUAGES[language]}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{title}</title><style>{style}</style></head>"
        f"<body><main>{''.join(page.parts())}</main></body></html>\n"
    )


def _file(name: str) -> str:
    return (files(_PORTING) / name).read_text(encoding="utf-8")


class _Page:
    def __init__(self, report: PortReport, words: dict[str, str]) -> None:
        self._report = report
        self._words = words

    def say(self, text: str, *values: object) -> str:
        """Return a text in the page's language, escaped."""
        phrase = text if isinstance(text, Phrase) else Phrase(text, *values)
        return escape(phrase.said(self._words))

    def parts(self) -> Iterator[str]:
        """Yield the page from top to bottom."""
        report = self._report
        count = len(report.findings)
        state = "wrong" if count else "right"
        headline = self.say("{} mistakes", count) if count else self.say("No mistake found")
        headline = self.say("1 mistake") if count == 1 else headline
        yield f'<h1>{self.say("Check of a port")}</h1><p class="verdict {state}">{headline}</p>'
        yield f'<p class="small">{self._summary()}</p>'
        for number, finding in enumerate(report.findings, 1):
            yield self._finding(number, finding)
        yield f"<h2>{self.say('Modules of the port')}</h2>"
        legend = (
            "\u2713 agrees, \u00d7 is wrong, \u2013 has no counterpart or follows from a mistake."
        )
        yield f'<p class="small">{self.say(legend)}</p><div class="tree">{self._tree()}</div>'
        yield from self._not_tested()
        yield from self._unpaired()

    def _summary(self) -> str:
        report = self._report
        steps = ", ".join(str(step.step) for step in report.steps)
        first = report.steps[0] if report.steps else None
        tolerance = (
            "" if first is None else f"{first.tolerance.precision}: {first.tolerance.value:.0e}"
        )
        return "<br>".join(
            (
                self.say("original: {}", report.reference),
                self.say(
                    "steps: {}; calls compared: {}; tensors that agree: {}",
                    steps,
                    report.paired_calls,
                    report.agreed,
                ),
                self.say("tolerance, relative: {}", tolerance),
            )
        )

    def _finding(self, number: int, finding: PortFinding) -> str:
        rows = [
            (self.say("module"), escape(finding.module or self.say("training step"))),
            (self.say("kind"), self.say(finding.kind)),
            (self.say("place"), self.say(finding.place)),
            (self.say("line"), escape(finding.line)),
            (self.say("distance"), f"{finding.distance:.1e}"),
            (self.say("tolerance"), f"{finding.tolerance:.0e}"),
            (self.say("shape in the original"), _shape(finding.shape_reference)),
            (self.say("shape in the port"), _shape(finding.shape_port)),
        ]
        cells = ""
        for name, value in rows:
            if value:
                cells += f'<tr><th scope="row">{name}</th><td>{value}</td></tr>'
        code = ""
        if finding.operations:
            operations = "\n".join(f"{each.line}  {each.name}" for each in finding.operations)
            title = self.say("Operations there")
            code = f"<details><summary>{title}</summary><pre>{escape(operations)}</pre></details>"
        return (
            f"<section><h2>{number}. {self.say(finding.sentence)}</h2>"
            f'<div class="scroll" tabindex="0"><table>{cells}</table></div>'
            f"{code}{self._consequences(finding)}</section>"
        )

    def _consequences(self, finding: PortFinding) -> str:
        if not finding.consequences:
            return ""
        shown = finding.consequences[:_MOST_CONSEQUENCES]
        items = "".join(f"<li>{self.say(each.sentence)}</li>" for each in shown)
        title = self.say(finding.consequence_words())
        return f"<details><summary>{title}</summary><ul>{items}</ul></details>"

    def _tree(self) -> str:
        """Draw the nested modules of the port."""
        if not self._report.steps:
            return ""
        step = self._report.steps[0]
        wrong = {finding.module for finding in self._report.findings}
        inner: dict[str, str] = {}
        for name, kind in reversed(step.modules):
            words = f"{escape(name or self.say('network'))} ({escape(kind)})"
            label = f'<span class="{self._state(name)}">{words}</span>'
            below = inner.pop(name, "")
            is_open = not name or any(f"{each}.".startswith(f"{name}.") for each in wrong)
            item = f"<div>{label}</div>"
            if below:
                item = f"<details{' open' * is_open}><summary>{label}</summary>{below}</details>"
            if not name:
                return item
            parent = name.rpartition(".")[0]
            inner[parent] = item + inner.get(parent, "")
        return inner.get("", "")

    def _state(self, name: str) -> str:
        """Return the CSS class that shows the state of a module."""
        follows: set[str] = set()
        for finding in self._report.findings:
            if finding.module == name:
                return "first"
            if finding.kind != "update":
                follows.update(each.module for each in finding.consequences)
        is_paired = name in self._report.steps[0].paired_modules
        return "agrees" if is_paired and name not in follows else "apart"

    def _not_tested(self) -> Iterator[str]:
        reasons = self._report.not_tested
        if reasons:
            items = ""
            for each in reasons:
                items += f"<li>{self.say('{}: {}', each.what, each.reason)}</li>"
            yield f"<h2>{self.say('Not tested')}</h2><ul>{items}</ul>"

    def _unpaired(self) -> Iterator[str]:
        unpaired = self._report.unpaired
        if unpaired:
            title = self.say(
                "Calls without counterpart: {}. They were not compared.", len(unpaired)
            )
            items = "".join(map(self._unpaired_item, unpaired))
            yield f"<details><summary>{title}</summary><ul>{items}</ul></details>"

    def _unpaired_item(self, each: NotPaired) -> str:
        side = self.say("port" if each.side == "port" else "original")
        return (
            f"<li>{side}: {escape(each.module)} ({escape(each.kind)}): {self.say(each.reason)}</li>"
        )


def _shape(shape: tuple[int, ...] | None) -> str:
    return "" if shape is None else str([*shape])
