"""``GradientScale``: the factors by which original and port scale gradients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class GradientScale:
    """The factors by which original and port scale gradients, such as a loss scale.

    Attributes:
        recorded: factor of the original's gradients.
        port: factor of the port's gradients.
    """

    recorded: float
    port: float = 1.0

    @property
    def factor(self) -> float:
        """The port's gradient scale, divided by the original's."""
        return self.port / self.recorded
