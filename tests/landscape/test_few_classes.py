"""Cross-entropy with the samples innermost against torch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from mindsummary_lightning.landscape.few_classes import FewClasses

N = 1000


def logits(classes: int = 7) -> Tensor:
    return 3 * torch.randn(N, classes, generator=torch.Generator().manual_seed(2))


def target(classes: int = 7) -> Tensor:
    return torch.randint(classes, (N,), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("way", [{}, {"label_smoothing": 0.1}, {"ignore_index": 2}, {"weight": torch.arange(1.0, 8.0)}])
def test_the_loss_of_few_classes_is_torchs(reduction: str, way: dict[str, Any]) -> None:
    expected = functional.cross_entropy(logits(), target(), reduction=reduction, **way)
    with FewClasses() as few_classes:
        by_module = nn.CrossEntropyLoss(reduction=reduction, **way)(logits(), target())
        by_names = functional.cross_entropy(target=target(), input=logits(), reduction=reduction, **way)
    assert few_classes.is_used
    for found in (by_module, by_names):
        assert found.shape == expected.shape
        torch.testing.assert_close(found, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("logits", "target"),
    [
        (logits(16), target(16)),
        (logits().double(), target()),
        (logits(), functional.one_hot(target(), 7).float()),
        (logits()[:500], target()[:500]),
        (logits()[0], target()[0]),
        (logits().view(40, 25, 7).movedim(2, 1), target().view(40, 25)),
    ],
    ids=["many classes", "float64", "probabilities", "few samples", "one sample", "more dimensions"],
)
def test_every_other_loss_is_left_to_torch(logits: Tensor, target: Tensor) -> None:
    expected = functional.cross_entropy(logits, target)
    with FewClasses() as few_classes:
        found = functional.cross_entropy(logits, target)
    assert not few_classes.is_used
    assert torch.equal(found, expected)


def test_other_calls_pass() -> None:
    with FewClasses() as few_classes:
        found = functional.linear(logits(), torch.eye(7))
    assert torch.equal(found, logits())
    assert not few_classes.is_used
