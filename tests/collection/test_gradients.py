"""Gradients and their norm, against numpy."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from mindsummary_lightning.collection.gradients import GradientCollector, total_norm
from mindsummary_lightning.collection.parameter_selection import NamedParameter
from mindsummary_lightning.collection.step_values import StepValues


def test_parameters_without_a_gradient_are_passed_over() -> None:
    with_gradient, without = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    with_gradient.sum().backward()
    selected = [NamedParameter("without", without), NamedParameter("with", with_gradient)]
    collector = GradientCollector()

    collector.take(0, [without, with_gradient], selected)
    collector.take(1, [without], selected)
    values = StepValues()
    collector.move_into(values)

    assert [tag for tag, _ in values.drain()] == ["with.gradient", "gradient_norm"]


def test_the_norm_is_that_of_all_gradients_laid_end_to_end() -> None:
    gradients = [torch.randn(3, 4), torch.randn(5), torch.randn(1, 1, 2)]
    laid = np.concatenate([gradient.numpy().reshape(-1) for gradient in gradients])

    np.testing.assert_allclose(float(total_norm(gradients)), np.linalg.norm(laid), rtol=1e-6)


def test_the_norm_of_half_precision_gradients_does_not_overflow() -> None:
    gradients = [
        torch.full((4,), 60000.0, dtype=torch.float16),
        torch.ones(3, dtype=torch.bfloat16),
    ]

    np.testing.assert_allclose(float(total_norm(gradients)), 120000.0, rtol=1e-3)


def test_the_norm_of_complex_gradients_takes_both_parts() -> None:
    gradients = [
        torch.full((4,), 3 + 4j),
        torch.ones(2, dtype=torch.complex128),
        torch.ones(3, dtype=torch.float64),
    ]

    np.testing.assert_allclose(float(total_norm(gradients)), np.sqrt(4 * 25 + 2 + 3), rtol=1e-6)


def test_the_norm_of_norms_is_the_norm_of_all() -> None:
    first, second = [torch.randn(3)], [torch.randn(4), torch.randn(2)]
    parts = total_norm([total_norm(first), total_norm(second)])

    np.testing.assert_allclose(float(parts), float(total_norm(first + second)), rtol=1e-6)
