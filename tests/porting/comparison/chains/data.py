"""Six nets' batches and the weights that are carried from one framework to the other; needs NumPy
alone.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

import numpy as np

BATCH, STEPS, CLASSES = 8, 3, 5
VOCABULARY, LENGTH, WIDTH, HEADS = 40, 12, 32, 4


@dataclass(frozen=True)
class Task:
    inputs: np.ndarray
    labels: np.ndarray
    optimizer: str  # momentum, adam or sgd
    rate: tuple[float, ...]  # of each step
    decay: float


def _random(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


def carried(name, shape):
    """The initial value of a weight; its name is PyTorch's."""
    draw, last = _random(name).normal(0, 1, shape), name.rpartition(".")[2]
    if last == "running_var":
        draw = 1 + np.abs(draw)
    elif len(shape) == 1 and last == "weight":
        draw = 1 + 0.1 * draw
    elif len(shape) == 1:
        draw = 0.1 * draw
    else:
        draw /= math.sqrt(np.prod(shape[1:]))
    return draw.astype(np.float32)


def task(kind):
    random, count = _random(kind), BATCH * STEPS
    images = random.normal(0.3, 1, (count, 3, 16, 16)).astype(np.float32)
    labels = random.integers(0, CLASSES, count).astype(np.int32)
    tokens = random.integers(1, VOCABULARY, (count, LENGTH)).astype(np.int32)
    lengths = random.integers(LENGTH // 2, LENGTH + 1, count)
    padded = np.where(np.arange(LENGTH) < lengths[:, None], tokens, 0).astype(np.int32)
    mask = (images.mean(1, keepdims=True) > 0.3).astype(np.float32)
    return {
        "transformer": Task(padded, np.roll(padded, -1, 1), "adam", (1e-3,) * STEPS, 1e-2),
        "resnet": Task(images, labels, "momentum", (0.1, 0.09, 0.08), 1e-2),
        "recurrent": Task(padded, labels, "adam", (2e-3, 1e-3, 5e-4), 0.0),
        "mobilenet": Task(images, labels, "momentum", (0.05,) * STEPS, 4e-3),
        "vit": Task(images, labels, "adam", (1e-3, 2e-3, 3e-3), 5e-2),
        "unet": Task(images, mask, "sgd", (0.1,) * STEPS, 1e-2),
    }[kind]
