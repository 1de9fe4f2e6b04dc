"""What a comparison of chains gives: rows, places and links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from mindsummary_lightning.porting.comparison.calls import Calls
from mindsummary_lightning.porting.comparison.distances import Floats
from mindsummary_lightning.values.step_chain import OutputRow

DifferenceKind = Literal["data", "weights", "forward", "loss", "backward", "update"]


class RowPair(NamedTuple):
    """A tensor of both runs, and how far it is apart."""

    a: OutputRow
    b: OutputRow
    distance: float


class PartingPlace(NamedTuple):
    """Where in the code the values part: in a module's call, or in its own code, ``between`` the calls in it.

    In each run the module's name and class, number of the call in the step, and file and line of
    the call at which they part; ``""`` if unknown.
    """

    a: str
    b: str
    kind_a: str
    kind_b: str
    call: int
    line_a: str
    line_b: str
    between: bool


class Part(NamedTuple):
    """The first link of a step that parts.

    Attributes:
        step: the step.
        link: its class.
        tensors: what is apart, the farthest first; of gradients the nearest to the loss.
        place: where, of class ``forward``.
        before: the last row before it, which agrees.
        settings: numbers of losses, norms and settings of optimizers that differ: name, all values
            of each run.
    """

    step: int
    link: DifferenceKind
    tensors: tuple[RowPair, ...]
    place: PartingPlace | None = None
    before: RowPair | None = None
    settings: tuple[tuple[str, list[float], list[float]], ...] = ()


class Link(NamedTuple):
    """How many rows of a link were compared, how many only one run has, and how far they are apart at most."""

    name: str
    compared: int
    alone: tuple[int, int]
    distance: float | None


@dataclass(frozen=True, eq=False)
class Chain:
    """What the tables of two runs say of each other.

    Attributes:
        steps: common steps with a table, up to the one at which they part.
        part: where they part, or ``None``.
        links: of the last of the steps.
        outputs: how far those of its paired calls are apart, in order; NaN if without an effect.
        calls: of the last of the steps.
    """

    steps: list[int]
    part: Part | None
    links: list[Link]
    outputs: Floats
    calls: Calls
