"""``FindingLog``: findings as they are made, and which of them follow from others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mindsummary_lightning.port_check.findings import Finding
from mindsummary_lightning.port_check.port_frames import Frame, PairedCall


@dataclass(frozen=True, slots=True, eq=False)
class LoggedFinding:
    """A finding and where it was made.

    Attributes:
        finding: for the report.
        frame: call of the port whose own code is wrong; ``None`` for the code of the training step.
        call: for an output or gradient, the call that it is of.
        order: of making it, by the clock of enterings and leavings.
        regions: for a gradient, the calls whose code the gradient has passed since it was last replaced.
        passed: for a gradient, names of the modules it has passed since it was last replaced.
    """

    finding: Finding
    frame: Frame | None
    call: PairedCall | None = None
    order: int = 0
    regions: tuple[Frame | None, ...] = ()
    passed: tuple[str, ...] = ()

    @property
    def is_forward(self) -> bool:
        """Whether it is of the forward pass."""
        return self.finding.kind in ("inputs", "output", "loss")


class FindingLog:
    """The findings of one step.

    Attributes:
        logged: in the order in which they were made.
        called: names of the port's modules that were called.
    """

    def __init__(self) -> None:
        self.logged: list[LoggedFinding] = []
        self.called: set[str] = set()

    def add(self, logged: LoggedFinding) -> None:
        """Take a finding."""
        self.logged.append(logged)

    def cause_of_update(self, finding: Finding) -> Finding | None:
        """The finding that a weight's other update follows from: its module is wrong, or no gradient reaches it."""
        for logged in self.logged:
            other = logged.finding
            is_same_weight = other.kind in ("no gradient", "weight gradient") and str(other.place) == str(finding.place)
            is_of_module = other.kind == "output" and other.module == finding.module
            if is_same_weight or is_of_module or self._is_left_out(other, finding.module):
                return other
        return None

    def _is_left_out(self, cause: Finding, module: str) -> bool:
        """Whether the code of a module is wrong, and does not call one in it."""
        is_inside = not cause.module or module.startswith(f"{cause.module}.")
        return cause.kind in ("inputs", "output") and is_inside and module not in self.called

    def folded(self) -> list[Finding]:
        """The findings that follow from no other one; the others are their consequences."""
        kept: list[LoggedFinding] = []
        for logged in sorted(self.logged, key=_is_of_gradients):
            cause = self._cause(logged, kept)
            if cause is None:
                kept.append(logged)
            else:
                cause.finding.consequences.append(logged.finding)
        return [logged.finding for logged in kept]

    def _cause(self, logged: LoggedFinding, kept: Sequence[LoggedFinding]) -> LoggedFinding | None:
        """The finding that another one follows from."""
        again = next((each for each in kept if _is_again(each.finding, logged.finding)), None)
        if again is not None or logged.is_forward:
            return again
        is_of_weight = logged.call is None
        if logged.finding.kind == "no gradient" and is_of_weight:
            left_out = [each for each in kept if self._is_left_out(each.finding, logged.finding.module)]
            return left_out[0] if left_out else _cause_of_gradient(logged, kept)
        if logged.finding.kind in ("gradient", "no gradient"):
            return self._cause_in_frozen_module(logged) or _cause_of_gradient(logged, kept)
        if logged.finding.kind == "weight gradient":
            return _cause_of_weight_gradient(logged, kept)
        return None

    def _cause_in_frozen_module(self, logged: LoggedFinding) -> LoggedFinding | None:
        """The weight that has no gradient, if that is why the output of its module has none.

        A gradient that ends behind a module is started there again, and reaches the weights of the module.
        """
        if logged.finding.kind != "no gradient" or logged.call is None:
            return None
        module = logged.call.frame.module.name
        for each in self.logged:
            is_of_weight = each.finding.kind == "no gradient" and each.call is None
            if is_of_weight and each.finding.module == module:
                return each
        return None


def fold_steps(steps: Sequence[list[Finding]]) -> list[Finding]:
    """The findings of several steps: one that is made again in a later step is a consequence of the first."""
    kept: dict[tuple[str, str, str], Finding] = {}
    result: list[Finding] = []
    for findings in steps:
        for finding in findings:
            key = finding.module, finding.kind, str(finding.place)
            first = kept.setdefault(key, finding)
            if first is finding:
                result.append(finding)
            else:
                first.consequences.append(finding)
    return result


def _is_of_gradients(logged: LoggedFinding) -> int:
    order = ("data", "weights", "inputs", "output", "loss", "no gradient", "gradient", "weight gradient", "update")
    return max(0, order.index(logged.finding.kind) - order.index("loss"))


def _is_again(first: Finding, other: Finding) -> bool:
    """Whether a finding is another call of the same module, or of the same line of its code."""
    if first.module != other.module or first.kind != other.kind:
        return False
    if first.kind in ("data", "weights", "update", "weight gradient"):
        return False
    return first.call != other.call or str(first.place) == str(other.place)


def _cause_of_gradient(logged: LoggedFinding, kept: Sequence[LoggedFinding]) -> LoggedFinding | None:
    for each in kept:
        is_in_code = each.frame in logged.regions and each.finding.kind in ("inputs", "loss")
        is_of_region = each.call is not None and each.call.frame in logged.regions
        is_of_consumer = each.finding.kind == "output" and (is_of_region or each.finding.module in logged.passed)
        if each.is_forward and (is_in_code or is_of_consumer):
            return each
    for each in kept:
        is_same_code = each.frame in logged.regions and each.finding.module == logged.finding.module
        if each.finding.kind in ("gradient", "no gradient") and is_same_code:
            return each
    return None


def _cause_of_weight_gradient(logged: LoggedFinding, kept: Sequence[LoggedFinding]) -> LoggedFinding | None:
    module = logged.finding.module
    for each in kept:
        is_of_module = each.finding.module == module and each.finding.kind in ("output", "gradient", "no gradient")
        is_inside = module.startswith(f"{each.finding.module}.") and each.finding.kind == "no gradient"
        if is_of_module or is_inside:
            return each
    above = [each for each in kept if each.finding.kind in ("inputs", "output", "loss", "gradient")]
    above = [each for each in above if not each.finding.module or module.startswith(f"{each.finding.module}.")]
    return max(above, key=lambda each: len(each.finding.module), default=None)
