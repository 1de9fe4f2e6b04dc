"""What a comparison of chains gives: rows, places and links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from mindsummary_lightning.values.step_chain import ChainRow

ChainClass = Literal["data", "weights", "forward", "loss", "backward", "update"]


class RowPair(NamedTuple):
    """A tensor of both runs, and how far it is apart."""

    a: ChainRow
    b: ChainRow
    distance: float


@dataclass(frozen=True, slots=True)
class PartingPlace:
    """Where in the code the values part, in each run: a module's call, or the code of a module between its children.

    Attributes:
        a: name of the module in the first run.
        b: its name in the second.
        kind_a: its class.
        kind_b: its class.
        call: number of the call in the step.
        line_a: file and line of the call after which, or before which, they part; ``""`` if unknown.
        line_b: of the second run.
        is_between: whether they part in the module's own code, between its children.
    """

    a: str
    b: str
    kind_a: str
    kind_b: str
    call: int
    line_a: str
    line_b: str
    is_between: bool


class Part(NamedTuple):
    """The first link of a step that parts.

    Attributes:
        step: the step.
        link: its class.
        tensors: what is apart, the farthest first; of gradients the nearest to the loss.
        place: where, of class ``forward``.
        before: the last row before it, which agrees.
        settings: numbers of the optimizer that differ: name, those of all groups in each run; of class ``update``.
    """

    step: int
    link: ChainClass
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
