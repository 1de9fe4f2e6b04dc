"""``GradientScale``: by how much the gradients of both sides are scaled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class GradientScale:
    """Scales of the gradients, as of a scaled loss.

    Attributes:
        recorded: factor of the original's gradients.
        port: factor of the port's gradients.
    """

    recorded: float
    port: float = 1.0

    @property
    def factor(self) -> float:
        """The port's scale over the original's."""
        return self.port / self.recorded
