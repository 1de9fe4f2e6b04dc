"""``PortFinding``: a mistake in a port, and its consequences."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from mindsummary_lightning.values.text import Phrase

# Any, in this module: JSON values.
Kind = Literal[
    "data",
    "weights",
    "inputs",
    "output",
    "loss",
    "gradient",
    "no gradient",
    "weight gradient",
    "update",
]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CodeOperation:
    """A function call in a module's own code: the function's name and the code line."""

    name: str
    line: str


@dataclass(slots=True, eq=False)
class PortFinding:
    """A place at which the port differs from the original.

    Attributes:
        module: the port's qualified name of the module that is wrong, or whose own code is; ``""``
            for the network or the code of the training step.
        kind: what differs there.
        place: a few words: the module, or ``code of X between A and B``.
        line: ``file.py:12`` in the port; ``""`` if unknown.
        distance: relative; infinite where shapes differ or a gradient is missing.
        tolerance: greatest distance that agrees.
        shape_reference: of the tensor in the original; ``None`` if it has none.
        shape_port: of the tensor in the port.
        call: calls of the module earlier in the step.
        step: number of the recorded step.
        sentence: what is wrong, in a sentence.
        operations: of the module's own code, where that is wrong.
        consequences: differences that follow from this finding.
    """

    module: str
    kind: Kind
    place: str
    distance: float
    tolerance: float
    sentence: str
    line: str = ""
    shape_reference: Shape | None = None
    shape_port: Shape | None = None
    call: int = 0
    step: int = 1
    operations: tuple[CodeOperation, ...] = ()
    consequences: list[PortFinding] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Convert the finding to JSON values; an infinite distance becomes ``None``."""
        return {
            "module": self.module,
            "kind": self.kind,
            "place": str(self.place),
            "line": self.line,
            "distance": _number(self.distance),
            "tolerance": _number(self.tolerance),
            "shape_reference": None if self.shape_reference is None else [*self.shape_reference],
            "shape_port": None if self.shape_port is None else [*self.shape_port],
            "call": self.call,
            "step": self.step,
            "sentence": str(self.sentence),
            "operations": [{"name": each.name, "line": each.line} for each in self.operations],
            "consequences": [each.to_dict() for each in self.consequences],
        }

    def consequence_words(self) -> Phrase:
        """Write how many differences follow from this finding."""
        count = len(self.consequences)
        if count == 1:
            return Phrase("1 more difference follows from it")
        return Phrase("{} more differences follow from it", count)


@dataclass(frozen=True, slots=True)
class NotPaired:
    """A module call that was not compared because it has no partner.

    Attributes:
        module: its name.
        kind: its class.
        side: ``port`` or ``reference``.
        reason: why, in a few words.
    """

    module: str
    kind: str
    side: Literal["port", "reference"]
    reason: str


@dataclass(frozen=True, slots=True)
class NotTested:
    """A check that was not made in this step, and the reason."""

    what: str
    reason: str


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
