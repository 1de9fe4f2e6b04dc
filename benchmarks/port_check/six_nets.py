"""Check PyTorch ports of six MindSpore nets.

Run ``python six_nets.py RUNS alone|combined|right [NET ...]``.
``tests/porting/comparison/chains/nets_mindspore.py`` makes the runs. ``mistakes.py`` beside it says
what must be named. ``alone`` plants each mistake by itself, ``combined`` plants fifty combinations
of two to five, and ``right`` checks the correct variants.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import torch

from mindsummary_lightning import PortCheck, PortReport
from mindsummary_lightning.porting.port_check.findings import PortFinding
from tests.porting.comparison.chains.mistakes import MISTAKES, VARIANTS, Mistake
from tests.porting.comparison.chains.nets_torch import train

COMBINATIONS = 50
LEAST, MOST = 2, 5  # mistakes of a combination
KINDS = {
    "data": ("data",),
    "weights": ("weights",),
    "forward": ("inputs", "output"),
    "loss": ("loss",),
    "backward": ("gradient", "no gradient", "weight gradient"),
    "update": ("update",),
}
# Dropout is a finding if the original draws no random numbers there. Else the report says that it
# is on.
NOT_JUDGED = {"dropout_on", "attention_dropout"}
# Mistakes that leave no place for others: they change the order of blocks, or every normalization.
ONLY_ALONE = {"blocks_reversed", "eval_mode", "other_order", "untied", *NOT_JUDGED}


@dataclass(frozen=True)
class Place:
    """Where a finding was made."""

    kind: str
    module: str


@dataclass
class Result:
    """What is missed and named too much in one kind of run."""

    ports: int = 0
    right: int = 0
    mistakes: int = 0
    named: int = 0
    lines: list[str] = field(default_factory=list)


@cache
def checked(net: str, runs: str, mistakes: tuple[str, ...]) -> PortReport:
    """The report on a port with some mistakes, up to the step in which the last one shows."""
    steps = [MISTAKES[net][name].step for name in mistakes if name in MISTAKES[net]]
    check = PortCheck(os.path.join(runs, net), max(steps, default=1))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        train(net, folder, "+".join(mistakes), check)
    assert check.report is not None
    return check.report


def module_of(finding: PortFinding) -> str:
    return finding.module.removeprefix("model").removeprefix(".")


def places(report: PortReport) -> set[Place]:
    return {Place(finding.kind, module_of(finding)) for finding in report.findings}


def is_named(expected: Mistake, report: PortReport) -> bool:
    """Whether a finding of the right kind is at one of the places of a mistake."""
    return any(
        finding.kind in KINDS[expected.link]
        and finding.step == expected.step
        and _is_at(finding, expected)
        for finding in report.findings
    )


def _is_at(finding: PortFinding, expected: Mistake) -> bool:
    if not expected.names or expected.link in ("data", "loss"):
        return True
    module = module_of(finding)
    parameters = {name.rpartition(".")[0] for name in expected.names}
    return module in expected.names or (expected.link != "forward" and module in parameters)


def combinations(nets: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Fifty of all nets, the same each time, of mistakes that show in the first step.

    Of mistakes at the same place one is chosen.
    """
    draw = random.Random(0)
    for _ in range(COMBINATIONS):
        net = draw.choice([*MISTAKES])
        count = draw.randint(LEAST, MOST)
        names = draw.sample([*MISTAKES[net]], len(MISTAKES[net]))
        chosen: dict[tuple[str, str], str] = {}
        for name in names:
            expected = MISTAKES[net][name]
            place = expected.link, next(iter(expected.names), "")
            is_wanted = expected.step == 1 and name not in ONLY_ALONE
            if is_wanted and len(chosen) < count:
                chosen.setdefault(place, name)
        if net in nets:
            yield net, tuple(chosen.values())


def run_alone(net: str, runs: str, result: Result) -> None:
    for name, expected in MISTAKES[net].items():
        report = checked(net, runs, (name,))
        is_right = is_named(expected, report)
        if name in NOT_JUDGED and not is_right:
            is_right = any(
                "dropout" in str(each.reason) or "draws" in str(each.reason)
                for each in report.not_tested
            )
        result.mistakes += 1
        result.named += is_right
        if not is_right:
            result.lines.append(f"{net} {name}: expected {expected}, got {_words(report)}")


def run_combined(net: str, runs: str, mistakes: tuple[str, ...], result: Result) -> None:
    report = checked(net, runs, mistakes)
    missed = [name for name in mistakes if not is_named(MISTAKES[net][name], report)]
    known = {place for name in mistakes for place in places(checked(net, runs, (name,)))}
    extra = sorted(f"{each.kind} in {each.module}" for each in places(report) - known)
    result.ports += 1
    result.right += not missed and not extra
    result.mistakes += len(mistakes)
    result.named += len(mistakes) - len(missed)
    if missed or extra:
        line = f"{net} {mistakes}: missed {missed}, extra {extra}, got {_words(report)}"
        print(line, flush=True)


def run_right(net: str, runs: str, result: Result) -> None:
    for name in ("", *VARIANTS[net]):
        report = checked(net, runs, (name,))
        result.ports += 1
        result.right += not report.findings
        if report.findings:
            result.lines.append(f"{net} {name}: {_words(report)}")


def _words(report: PortReport) -> str:
    found = [
        (each.kind, module_of(each), each.step, f"{each.distance:.1e}") for each in report.findings
    ]
    return json.dumps(found)


def main(runs: str, how: str, nets: list[str]) -> None:
    result = Result()
    wanted = nets or [*MISTAKES]
    if how == "combined":
        for net, mistakes in combinations(wanted):
            run_combined(net, runs, mistakes, result)
    else:
        for net in wanted:
            {"alone": run_alone, "right": run_right}[how](net, runs, result)
    for line in result.lines:
        print(line)
    print(
        f"{how}: {result.named} of {result.mistakes} mistakes, "
        f"{result.right} of {result.ports} ports",
        flush=True,
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    directory, kind, *chosen_nets = sys.argv[1:]
    main(directory, kind, chosen_nets)
