"""Data and first weights of the nets that are trained in both frameworks; by PyTorch's names, NumPy
only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BATCH, STEPS = 16, 32
SAMPLES = BATCH * 16  # two epochs


class Net(NamedTuple):
    """What a net is trained with: inputs and labels by sample, first weights by name, learning
    rate, weight decay.
    """

    inputs: tuple[NDArray[np.generic], ...]
    labels: NDArray[np.generic]
    weights: dict[str, NDArray[np.float32]]
    learning_rate: float
    weight_decay: float


def _dense(
    random: np.random.Generator, name: str, inputs: int, outputs: int, bias: float = 0.0
) -> dict[str, NDArray]:
    return {
        f"{name}.weight": random.normal(0, inputs**-0.5, (outputs, inputs)),
        f"{name}.bias": random.normal(0, bias, outputs) if bias else np.zeros(outputs),
    }


def _norm(name: str, size: int) -> dict[str, NDArray]:
    return {f"{name}.weight": np.ones(size), f"{name}.bias": np.zeros(size)}


def cnn() -> Net:
    random = np.random.default_rng(7)
    labels = random.integers(0, 4, SAMPLES).astype(np.int32)
    images = random.normal(0, 1, (SAMPLES, 1, 12, 12)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        image[0, 3 * label : 3 * label + 3] += 1.0
    weights = {
        "conv1.weight": random.normal(0, 0.2, (8, 1, 3, 3)),
        **_norm("bn1", 8),
        "conv2.weight": random.normal(0, 0.1, (16, 8, 3, 3)),
        **_norm("bn2", 16),
        **_dense(random, "fc1", 144, 32),
        **_norm("norm", 32),
        **_dense(random, "fc2", 32, 4),
    }
    return _net((images,), labels, weights, 0.05, 1e-4)


def mlp() -> Net:
    random = np.random.default_rng(5)
    tokens = random.integers(0, 50, (SAMPLES, 12)).astype(np.int32)
    weights = {
        "emb.weight": random.normal(0, 0.5, (50, 32)),
        **_dense(random, "fc1", 32, 64, 0.05),
        **_dense(random, "fc2", 64, 32, 0.05),
        "norm.weight": random.normal(1, 0.1, 32),
        "norm.bias": random.normal(0, 0.05, 32),
        **_dense(random, "head", 32, 4, 0.05),
    }
    return _net((tokens,), (tokens.sum(1) % 4).astype(np.int32), weights, 1e-3, 1e-2)


def regression() -> Net:
    random = np.random.default_rng(3)
    inputs = random.normal(0, 1, (SAMPLES, 6)).astype(np.float32)
    target = np.sin(inputs.sum(1, keepdims=True)).astype(np.float32)
    weights = {
        **_dense(random, "fc1", 6, 24),
        **_dense(random, "fc2", 24, 24),
        **_dense(random, "fc3", 24, 1),
    }
    return _net((inputs,), target, weights, 0.05, 0.0)


def attention() -> Net:
    random = np.random.default_rng(11)
    inputs = random.normal(0, 1, (SAMPLES, 8, 16)).astype(np.float32)
    labels = (inputs[:, 0].sum(1) > inputs[:, 1].sum(1)).astype(np.int32)
    weights: dict[str, NDArray] = {}
    for name in ("query", "key", "value", "out"):
        weights |= _dense(random, name, 16, 16, 0.05)
    weights |= _norm("norm", 16) | _dense(random, "head", 16, 2, 0.05)
    return _net((inputs,), labels, weights, 1e-3, 0.0)


def recommender() -> Net:
    random = np.random.default_rng(13)
    users, items = (random.integers(0, 40, SAMPLES).astype(np.int32) for _ in range(2))
    ratings = ((users * 3 + items * 5) % 7 / 7).astype(np.float32)
    weights = {name: random.normal(0, 0.3, (40, 8)) for name in ("users.weight", "items.weight")}
    weights |= {"user_bias.weight": np.zeros((40, 1)), "item_bias.weight": np.zeros((40, 1))}
    return _net((users, items), ratings, weights, 0.02, 0.0)


def _net(
    inputs: tuple[NDArray, ...],
    labels: NDArray,
    weights: dict[str, NDArray],
    learning_rate: float,
    decay: float,
) -> Net:
    return Net(
        inputs,
        labels,
        {name: value.astype(np.float32) for name, value in weights.items()},
        learning_rate,
        decay,
    )


NETS = {
    "cnn": cnn,
    "mlp": mlp,
    "regression": regression,
    "attention": attention,
    "recommender": recommender,
}
