"""``FindingLog``: collects a step's findings, and tells causes from consequences."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mindsummary_lightning.porting.port_check.findings import PortFinding
from mindsummary_lightning.porting.port_check.port_frames import Frame, PairedCall
from mindsummary_lightning.values.text import Phrase

_MOST_WEIGHTS = 3  # with the same finding, that are listed one by one


# order of what comes after all calls, such as the loss
AT_THE_END = sys.maxsize


@dataclass(frozen=True, slots=True, eq=False)
class GradientPath:
    """The modules and the code through which a gradient has passed.

    The path leads from the replaced values back to an output or a weight.

    Attributes:
        regions: calls whose own code the gradient has passed through.
        passed: names of modules that the gradient has passed through.
        after: time at which the output was returned or the weight was used. Earlier code cannot
                have changed the gradient.
    """

    regions: tuple[Frame | None, ...]
    passed: tuple[str, ...] = ()
    after: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LoggedFinding:
    """A finding, and the call in which it was made.

    Attributes:
        finding: for the report.
        frame: call of the port whose own code is wrong; ``None`` for the code of the training step.
        call: for an output or gradient, the call that returned the output.
        order: time of the finding, on the counter of call starts and ends.
        paths: the gradient's paths; for the gradient of a weight, a path for each use.
        has_other_mode: whether the module is in another mode, training or evaluation, than the
            original's.
        is_called: for a weight or running statistic, whether its module was called in the step.
        is_buffer: for an update, whether it is of running statistics.
        has_all_paths: for the gradient of a weight, whether all its uses are known.
        is_of_hook: for the gradient of a weight, whether a hook on the weight has changed it.
    """

    finding: PortFinding
    frame: Frame | None
    call: PairedCall | None = None
    order: int = 0
    paths: tuple[GradientPath, ...] = ()
    has_other_mode: bool = False
    is_called: bool = True
    is_buffer: bool = False
    has_all_paths: bool = False
    is_of_hook: bool = False

    @property
    def is_forward(self) -> bool:
        """Tell whether the finding is about the forward pass."""
        return self.finding.kind in ("inputs", "output", "loss")


class FindingLog:
    """The findings of a single step."""

    def __init__(self) -> None:
        self.logged: list[LoggedFinding] = []

    def add(self, logged: LoggedFinding) -> None:
        """Add a finding."""
        self.logged.append(logged)

    def folded(self) -> list[PortFinding]:
        """Return the findings that are causes, with their consequences attached."""
        kept: list[LoggedFinding] = []
        # by the identity of a logged finding: what it follows from
        roots: dict[int, LoggedFinding] = {}
        seen: list[LoggedFinding] = []
        for logged in sorted(self.logged, key=_is_of_gradients):
            cause = _cause(logged, seen)
            root = logged if cause is None else roots[id(cause)]
            roots[id(logged)] = root
            # a gradient that is a consequence explains no other one: its cause does
            if logged.is_forward or root is logged:
                seen.append(logged)
            if root is logged:
                kept.append(logged)
            else:
                root.finding.consequences.append(logged.finding)
        return [logged.finding for logged in _grouped(kept)]


def _grouped(kept: Sequence[LoggedFinding]) -> list[LoggedFinding]:
    """Join findings of the same kind that concern many weights."""
    result = [*kept]
    groups = (("no gradient", False), ("weight gradient", False), ("weight gradient", True))
    for kind, is_of_hook in groups:
        same: list[LoggedFinding] = []
        for each in result:
            is_of_weight = each.finding.kind == kind and each.call is None
            if is_of_weight and each.is_of_hook == is_of_hook:
                same.append(each)
        if len(same) > _MOST_WEIGHTS:
            result[result.index(same[0])] = _whole(same)
            result = [each for each in result if each not in same]
    return result


def _whole(same: Sequence[LoggedFinding]) -> LoggedFinding:
    """Join all given findings into a single finding."""
    first = same[0].finding
    module = _common_module([each.finding.module for each in same])
    sentence = Phrase("{} The same holds for {} more weights.", first.sentence, len(same) - 1)
    consequences = [*first.consequences, *(each.finding for each in same[1:])]
    whole = replace(first, module=module, sentence=sentence, consequences=consequences)
    return replace(same[0], finding=whole)


def _common_module(modules: Sequence[str]) -> str:
    """Return the innermost module that contains all given modules."""
    words = [module.split(".") for module in modules]
    common: list[str] = []
    for level in zip(*words, strict=False):
        if len({*level}) > 1:
            break
        common.append(level[0])
    return ".".join(common)


def fold_steps(steps: Sequence[list[PortFinding]]) -> list[PortFinding]:
    """Join the findings of several steps into a list of causes with consequences.

    A later finding may follow from an earlier finding.
    """
    result: list[PortFinding] = []
    for findings in steps:
        earlier = [*result]
        for finding in findings:
            cause = next((each for each in earlier if _goes_on(each, finding)), None)
            if cause is None:
                result.append(finding)
            else:
                cause.consequences.append(finding)
    return result


def _goes_on(first: PortFinding, later: PortFinding) -> bool:
    """Tell whether an earlier finding explains a later step's finding.

    It is the same mistake, or follows from the update with that mistake.
    """
    if (first.module, first.kind, str(first.place)) == (later.module, later.kind, str(later.place)):
        return True
    is_of_update = first.kind == "update" and later.kind in ("update", "weight gradient")
    return is_of_update and first.module in ("", later.module)


def _is_of_gradients(logged: LoggedFinding) -> int:
    order = (
        "data",
        "weights",
        "inputs",
        "output",
        "loss",
        "no gradient",
        "gradient",
        "weight gradient",
        "update",
    )
    return max(0, order.index(logged.finding.kind) - order.index("loss"))


def _cause(logged: LoggedFinding, kept: Sequence[LoggedFinding]) -> LoggedFinding | None:
    """Find the kept finding that explains a given finding, if any."""
    for each in kept:
        if _is_again(each, logged):
            return each
    kind = logged.finding.kind
    if logged.is_forward or kind in ("data", "weights"):
        return None
    if kind == "update":
        return _cause_of_update(logged, kept)
    if logged.call is not None:
        return _cause_of_gradient(logged, kept)
    return _cause_of_weight_gradient(logged, kept)


def _is_again(first: LoggedFinding, other: LoggedFinding) -> bool:
    """Tell whether a finding repeats an earlier finding.

    Both are about the same module, or about the same line of code.
    """
    if first.has_other_mode and other.has_other_mode:
        return True
    one, two = first.finding, other.finding
    if one.module != two.module or one.kind != two.kind:
        return False
    if first.is_buffer and other.is_buffer:
        return True
    if one.kind in ("data", "weights", "update", "weight gradient"):
        return False
    return one.call != two.call or str(one.place) == str(two.place)


def _cause_of_gradient(
    logged: LoggedFinding, kept: Sequence[LoggedFinding]
) -> LoggedFinding | None:
    """Find a mistake in code or in a module through which a gradient has passed."""
    for each in kept:
        if each.is_forward and any(_is_on(path, each) for path in logged.paths):
            return each
    regions: set[Frame | None] = set()
    for path in logged.paths:
        regions.update(map(_anchor, path.regions))
    for each in kept:
        is_of_gradient = each.finding.kind in ("gradient", "no gradient") and each.call is not None
        if is_of_gradient and _anchor(each.frame) in regions:
            return each
    return None


def _is_on(path: GradientPath, forward: LoggedFinding) -> bool:
    """Tell whether a gradient has passed through a forward mistake."""
    if forward.order <= path.after:
        return False
    if forward.finding.kind == "output" and forward.finding.module in path.passed:
        return True
    regions = {_anchor(region) for region in path.regions}
    is_in_code = forward.finding.kind in ("inputs", "loss") and _anchor(forward.frame) in regions
    is_of_region = forward.call is not None and _anchor(forward.call.frame) in regions
    return is_in_code or is_of_region


def _anchor(frame: Frame | None) -> Frame | None:
    """Return the innermost paired call among a call and its enclosing calls."""
    while frame is not None and frame.reference is None:
        frame = frame.parent
    return frame


def _cause_of_weight_gradient(
    logged: LoggedFinding, kept: Sequence[LoggedFinding]
) -> LoggedFinding | None:
    """Find the mistake that explains a wrong gradient of a weight.

    The gradient has passed through it, or it is in or around the weight's module.
    """
    module = logged.finding.module
    if logged.is_of_hook or (logged.finding.kind == "no gradient" and logged.is_called):
        return None
    in_code = _cause_of_gradient(logged, kept)
    if logged.has_all_paths:
        return in_code
    for each in kept:
        if each.finding.module == module and each.call is not None:
            return each
    if in_code is not None:
        return in_code
    of_calls = [each for each in kept if each.is_forward or each.call is not None]
    return _innermost_around(module, of_calls)


def _cause_of_update(logged: LoggedFinding, kept: Sequence[LoggedFinding]) -> LoggedFinding | None:
    """Find the mistake that explains a wrong update of running statistics.

    It is in the module that holds the statistics.
    """
    if not logged.is_buffer:
        return None
    module = logged.finding.module
    of_forward = [each for each in kept if each.is_forward]
    for each in of_forward:
        if each.finding.module == module:
            return each
    return None if logged.is_called else _innermost_around(module, of_forward)


def _innermost_around(module: str, found: Sequence[LoggedFinding]) -> LoggedFinding | None:
    around: list[LoggedFinding] = []
    for each in found:
        outer = each.finding.module
        if not outer or module.startswith(f"{outer}."):
            around.append(each)
    return max(around, key=lambda each: len(each.finding.module), default=None)
