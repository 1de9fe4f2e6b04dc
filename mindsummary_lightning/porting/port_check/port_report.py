"""``PortReport``: the result of checking a ported model."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mindsummary_lightning.porting.port_check.finding_log import fold_steps
from mindsummary_lightning.porting.port_check.findings import NotPaired, NotTested, PortFinding
from mindsummary_lightning.porting.port_check.tolerances import PrecisionTolerance
from mindsummary_lightning.porting.port_check.weight_pairs import WeightPairs
from mindsummary_lightning.values.text import Phrase, listed

# Any, in this module: JSON values.
_MOST_LINES = 18  # findings on a terminal
_MOST_OPERATIONS = 6  # of a finding, on a terminal
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """The result of checking one step.

    Attributes:
        step: its number.
        findings: mistakes, each with its consequences.
        paired_calls: calls of modules that were compared.
        unpaired: calls of both sides that were not paired.
        agreed: tensors that agreed.
        not_tested: checks that were not made.
        tolerance: of the step's precision.
        worst_output: greatest distance of an output that agreed.
        worst_gradient: greatest distance of an output's gradient that agreed.
        worst_weight_gradient: greatest distance of a weight's gradient that agreed.
        weights: how the weights are paired.
        modules: name and class of each module of the port.
        paired_modules: names of the modules that were compared.
        has_updated: whether the port's optimizers have made the step's update on the original's
            values.
    """

    step: int
    findings: list[PortFinding]
    paired_calls: int
    unpaired: list[NotPaired]
    agreed: int
    not_tested: list[NotTested]
    tolerance: PrecisionTolerance
    worst_output: float
    worst_gradient: float
    worst_weight_gradient: float
    weights: WeightPairs
    modules: list[tuple[str, str]]
    paired_modules: list[str]
    has_updated: bool = False


class PortReport:
    """The findings of checking a ported model, in all checked steps.

    Args:
        reference: what the port was checked against.
        steps: the results.

    Attributes:
        reference: path of the run or of the step.
        findings: mistakes in the order of the step, each with its consequences.
        steps: the results of each step.
    """

    def __init__(self, reference: str, steps: Sequence[CheckedStep]) -> None:
        self.reference: str = reference
        self.steps: tuple[CheckedStep, ...] = tuple(steps)
        self.findings: list[PortFinding] = fold_steps([step.findings for step in steps])

    def __repr__(self) -> str:
        counts = f"{self.paired_calls} paired calls, {self.agreed} agreed"
        return f"PortReport({len(self.findings)} findings, {counts})"

    def __str__(self) -> str:
        return self.text()

    @property
    def paired_calls(self) -> int:
        """Count the module calls that were compared, in all steps together."""
        return sum(step.paired_calls for step in self.steps)

    @property
    def agreed(self) -> int:
        """Count the tensors that agreed, in all steps together."""
        return sum(step.agreed for step in self.steps)

    @property
    def unpaired(self) -> list[NotPaired]:
        """List the modules that were not paired, each module only once."""
        found: dict[NotPaired, None] = {}
        for step in self.steps:
            found.update(dict.fromkeys(step.unpaired))
        return [*found]

    @property
    def not_tested(self) -> list[NotTested]:
        """List the checks that were not made, each check only once."""
        found: dict[NotTested, None] = {}
        for step in self.steps:
            found.update(dict.fromkeys(step.not_tested))
        return [*found]

    def to_dict(self) -> dict[str, Any]:
        """Convert the report to JSON values."""
        first = self.steps[0] if self.steps else None
        return {
            "reference": self.reference,
            "steps": [step.step for step in self.steps],
            "findings": [finding.to_dict() for finding in self.findings],
            "paired_calls": self.paired_calls,
            "unpaired": list(map(_not_paired_dict, self.unpaired)),
            "agreed": self.agreed,
            "not_tested": list(map(_not_tested_dict, self.not_tested)),
            "precision": "" if first is None else first.tolerance.precision,
            "tolerance": None if first is None else first.tolerance.value,
            "greatest_distances": self._greatest_distances(),
            "weights": {
                "only_port": [] if first is None else [*first.weights.only_port],
                "only_reference": [] if first is None else [*first.weights.only_reference],
            },
        }

    def _greatest_distances(self) -> dict[str, float]:
        output = gradient = weight_gradient = 0.0
        for step in self.steps:
            output = max(output, step.worst_output)
            gradient = max(gradient, step.worst_gradient)
            weight_gradient = max(weight_gradient, step.worst_weight_gradient)
        return {"output": output, "gradient": gradient, "weight_gradient": weight_gradient}

    def to_json(self, path: str | os.PathLike[str] | None = None, *, indent: int | None = 2) -> str:
        """Return the report as JSON text, and write it to ``path`` if given.

        Raises:
            OSError: the file cannot be written.
        """
        text = json.dumps(self.to_dict(), indent=indent)
        _write(path, text)
        return text

    def to_html(self, path: str | os.PathLike[str] | None = None, *, language: str = "en") -> str:
        """Return the report as an HTML page, and write it to ``path`` if given.

        Args:
            path: of the file.
            language: ``"en"`` or ``"zh"``.

        Raises:
            OSError: the file cannot be written.
            ValueError: ``language`` has a different value.
        """
        from mindsummary_lightning.porting.port_check.report_page import report_page

        text = report_page(self, language)
        _write(path, text)
        return text

    def text(self) -> str:
        """Return the report as at most a screen of terminal text, findings first."""
        lines = [self._headline()]
        for number, finding in enumerate(self.findings[:_MOST_LINES], 1):
            lines.extend(_finding_lines(number, finding, len(self.findings)))
        if len(self.findings) > _MOST_LINES:
            lines.append(
                f"... and {len(self.findings) - _MOST_LINES} more: "
                "report.findings, report.to_html()"
            )
        lines.append(self._counts())
        for each in self.not_tested:
            lines.append(f"not tested: {each.what}: {each.reason}")
        return "\n".join(lines)

    def _headline(self) -> str:
        steps = listed([str(step.step) for step in self.steps], _MOST_NAMED)
        if not self.findings:
            return f"No mistake found in step {steps}."
        many = "mistake" if len(self.findings) == 1 else "mistakes"
        return f"{len(self.findings)} {many} found in step {steps}:"

    def _counts(self) -> str:
        sides = Counter(each.side for each in self.unpaired)
        tolerance = self.steps[0].tolerance if self.steps else None
        words = ""
        if tolerance is not None:
            words = f" (tolerance {tolerance.precision}: {tolerance.value:.0e})"
        return (
            f"{self.agreed} tensors of {self.paired_calls} calls agree{words}; "
            f"without counterpart: {sides['port']} modules of the port, "
            f"{sides['reference']} of the original."
        )


def _not_paired_dict(call: NotPaired) -> dict[str, str]:
    return {
        "module": call.module,
        "kind": call.kind,
        "side": call.side,
        "reason": str(call.reason),
    }


def _not_tested_dict(part: NotTested) -> dict[str, str]:
    return {"what": str(part.what), "reason": str(part.reason)}


def _finding_lines(number: int, finding: PortFinding, count: int) -> list[str]:
    lines = [f" {number}. {finding.sentence}"]
    details = []
    if finding.line:
        details.append(Phrase("called at {}", finding.line))
    if finding.consequences:
        details.append(finding.consequence_words())
    if details:
        lines.append(f"    {'; '.join(map(str, details))}")
    if finding.operations and count <= _MOST_NAMED:
        shown = finding.operations[-_MOST_OPERATIONS:]
        for each in shown:
            lines.append(f"    {each.line}  {each.name}")
    return lines


def _write(path: str | os.PathLike[str] | None, text: str) -> None:
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
