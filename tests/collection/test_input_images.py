"""The images that are found in a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch

from mindsummary_lightning.collection.input_images import image_batch

_IMAGES = torch.zeros(2, 3, 4, 4)
_LABELS = torch.zeros(2)


class _Sample(NamedTuple):
    label: Any
    image: Any


@dataclass
class _Batch:
    labels: Any
    images: Any


class _Object:
    def __init__(self) -> None:
        self.images = _IMAGES


@pytest.mark.parametrize(
    "batch",
    [
        _IMAGES,
        [_IMAGES, _LABELS],
        (_IMAGES, _LABELS),
        ((_IMAGES, _LABELS), _LABELS),
        {"label": _LABELS, "image": _IMAGES},
        [{"label": _LABELS, "image": [_IMAGES]}],
        [_LABELS, _IMAGES],
        _Sample(_LABELS, _IMAGES),
        _Batch(_LABELS, {"views": (_IMAGES, torch.ones(2, 3, 4, 4))}),
        [_Object()],
    ],
    ids=["tensor", "list", "tuple", "nested", "dict", "mixed", "second", "named tuple", "dataclass", "object"],
)
def test_the_images_of_a_batch_are_found(batch: Any) -> None:
    assert image_batch(batch) is _IMAGES


@pytest.mark.parametrize(
    "batch",
    [
        _Batch,
        torch.zeros(2, 4, 4, 4),
        torch.zeros(3, 4, 4),
        torch.zeros(0, 3, 4, 4),
        [],
        {},
        None,
        "images",
        {"label": _LABELS},
    ],
    ids=["a class", "four channels", "no batch", "no pixels", "empty", "empty dict", "none", "text", "labels"],
)
def test_a_batch_without_images_has_none(batch: Any) -> None:
    assert image_batch(batch) is None


def test_a_batch_that_contains_itself_has_none() -> None:
    batch: list[Any] = [_LABELS]
    batch.append(batch)

    assert image_batch(batch) is None
