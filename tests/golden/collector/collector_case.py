"""One small training job that MindSpore and PyTorch can both run: data, initial weights and
settings, NumPy only.
"""

from __future__ import annotations

import numpy as np

EPOCHS, BATCHES, BATCH_SIZE = 2, 20, 16
OPTIONS = {
    "collect_freq": 10,
    "collect_specified_data": {"collect_landscape": None},
    "collect_tensor_freq": 4,
}
LEARNING_RATE, MOMENTUM = 0.05, 0.9


def data() -> tuple[np.ndarray, np.ndarray]:
    """Images of shape (N, 1, 8, 8), float32 in [0, 1], and labels, int32; their order is the order
    of training.
    """
    random = np.random.RandomState(1)
    count = BATCHES * BATCH_SIZE
    labels = random.randint(0, 10, count).astype(np.int32)
    images = random.rand(count, 1, 8, 8).astype(np.float32) * 0.5
    images[np.arange(count), 0, labels % 8, labels // 2] = 1.0
    return images, labels


def weights() -> dict[str, np.ndarray]:
    """Initial parameters by name, in the optimizer's order."""
    random = np.random.RandomState(2)
    return {
        "conv1.weight": random.randn(4, 1, 3, 3).astype(np.float32) * 0.3,
        "fc.weight": random.randn(10, 4 * 6 * 6).astype(np.float32) * 0.1,
        "fc.bias": np.zeros(10, np.float32),
    }
