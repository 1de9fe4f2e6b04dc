"""Collects the gradients that an optimizer is about to use.

Of several steps in a batch, the last step's gradients count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from mindsummary_lightning.collection.parameter_selection import NamedParameter
from mindsummary_lightning.collection.step_values import StepValues


class GradientCollector:
    """Collects gradient histograms of selected parameters, and the total norm.

    One object serves all steps.
    """

    def __init__(self) -> None:
        self._by_optimizer: dict[int, tuple[StepValues, torch.Tensor]] = {}

    def clear(self) -> None:
        """Discard the gradients of an unfinished step."""
        self._by_optimizer = {}

    def take(
        self,
        optimizer: int,
        parameters: Sequence[nn.Parameter],
        selected: Iterable[NamedParameter],
        scale: torch.Tensor | None = None,
    ) -> None:
        """Collect the gradients of an optimizer's parameters.

        They replace the gradients of the optimizer's earlier steps in this batch.

        All ranks that share a sharded parameter must call. ``selected`` parameters get a histogram;
        ``scale`` is what the gradients are still multiplied by.
        """
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if not gradients:
            return
        held = {id(parameter) for parameter in parameters}
        values = StepValues()
        for each in selected:
            gradient = each.parameter.grad
            if id(each.parameter) in held and gradient is not None:
                gradient = _dense(gradient) if gradient.dim() else gradient.reshape(1)
                unscaled = (
                    gradient if scale is None else gradient.float() / scale.to(gradient.device)
                )
                values.add_histogram(f"{each.name}.gradient", unscaled)
        norm = total_norm(gradients)
        self._by_optimizer[optimizer] = (
            values,
            norm if scale is None else norm / scale.to(norm.device),
        )

    def move_into(self, values: StepValues) -> None:
        """Move the histograms and the total gradient norm into the step's values."""
        gradients, self._by_optimizer = list(self._by_optimizer.values()), {}
        for histograms, _ in gradients:
            values.extend(histograms)
        if gradients:
            values.add_scalar("gradient_norm", total_norm([norm for _, norm in gradients]))


def total_norm(gradients: Iterable[torch.Tensor]) -> torch.Tensor:
    """Compute the Euclidean norm over all gradients together, as a float32 tensor.

    All ranks that share a sharded gradient call it.
    """
    norms = [
        torch.linalg.vector_norm(as_exact(stored_elements(gradient))).float()
        for gradient in gradients
    ]
    whole = [norm.full_tensor() if hasattr(norm, "full_tensor") else norm for norm in norms]
    total: torch.Tensor = torch.linalg.vector_norm(
        torch.stack([norm.to(whole[0].device) for norm in whole])
    )
    return total


def stored_elements(gradient: torch.Tensor) -> torch.Tensor:
    """Return the elements of a gradient that enter its norm.

    Of a sparse gradient (``nn.Embedding(sparse=True)``) they are the stored elements.
    """
    if gradient.layout is torch.sparse_coo:
        return gradient.coalesce().values()
    return _dense(gradient)


def as_exact(tensor: torch.Tensor) -> torch.Tensor:
    """Convert a tensor to float32, unless its dtype is at least as precise."""
    if tensor.dtype in (torch.float32, torch.float64) or tensor.is_complex():
        return tensor
    return tensor.float()


def _dense(gradient: torch.Tensor) -> torch.Tensor:
    if gradient.layout is torch.strided:
        return gradient
    return gradient.to_dense()
