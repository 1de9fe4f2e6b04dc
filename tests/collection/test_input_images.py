"""Which part of a batch is the picture."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mindsummary_lightning.collection.input_images import image_batch

_IMAGES = torch.zeros(2, 3, 4, 4)
_LABELS = torch.zeros(2)


@pytest.mark.parametrize(
    "batch",
    [
        _IMAGES,
        [_IMAGES, _LABELS],
        (_IMAGES, _LABELS),
        ((_IMAGES, _LABELS), _LABELS),
        {"label": _LABELS, "image": _IMAGES},
        [{"label": _LABELS, "image": [_IMAGES]}],
    ],
    ids=["tensor", "list", "tuple", "nested", "dict", "dict in list"],
)
def test_the_images_of_a_batch_are_found(batch: Any) -> None:
    assert image_batch(batch) is _IMAGES


@pytest.mark.parametrize(
    "batch",
    [
        [_LABELS, _IMAGES],
        torch.zeros(2, 4, 4, 4),
        torch.zeros(3, 4, 4),
        torch.zeros(0, 3, 4, 4),
        [],
        {},
        None,
        "images",
        {"label": _LABELS},
    ],
    ids=["images second", "four channels", "no batch", "no picture", "empty", "empty dict", "none", "text", "labels"],
)
def test_a_batch_without_images_has_none(batch: Any) -> None:
    assert image_batch(batch) is None
