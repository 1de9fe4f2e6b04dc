"""Record one step of mindcv's nets with whole tensors.

Run ``python record_mindcv.py DIRECTORY [NET ...]``.
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindcv.models import create_model
from mindcv.models.convnext import ConvNeXt
from mindcv.models.efficientnet import EfficientNet
from mindcv.models.mlpmixer import MLPMixer
from mindcv.models.swintransformer import SwinTransformer
from mindcv.models.vit import VisionTransformer
from mindspore import Tensor, nn

from mindsummary_lightning.mindspore import StepRecorder

BATCH, SIZE, CLASSES = 4, 64, 10
RATE, MOMENTUM = 0.01, 0.9


def _named(name: str, **settings: Any) -> Callable[[], Any]:
    return lambda: create_model(name, num_classes=CLASSES, **settings)


NETS: dict[str, Callable[[], Any]] = {
    "resnet50": _named("resnet50"),
    "mobilenet_v2": _named("mobilenet_v2_100"),
    "mobilenet_v3_small": _named("mobilenet_v3_small_100"),
    "efficientnet_b0": lambda: EfficientNet(
        "efficientnet_b0", 0.0, 1.0, 1.0, num_classes=CLASSES, drop_path_prob=0.0
    ),
    "mnasnet": _named("mnasnet_100", drop_rate=0.0),
    "regnet_y_400mf": _named("regnet_y_400mf"),
    "densenet121": _named("densenet121"),
    "shufflenet_v2": _named("shufflenet_v2_x1_0"),
    "squeezenet1_0": _named("squeezenet1_0", drop_rate=0.0),
    "ghostnet": _named("ghostnet_100", drop_rate=0.0),
    "poolformer": _named("poolformer_s12"),
    "convnext": lambda: ConvNeXt(3, CLASSES, [1, 1, 2, 1], [32, 64, 128, 256]),
    "mixer": lambda: MLPMixer(4, 8, 64, 64, 32, 256, CLASSES),
    "swin": lambda: SwinTransformer(
        image_size=SIZE,
        embed_dim=32,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        drop_path_rate=0.0,
        num_classes=CLASSES,
    ),
    "vit": lambda: VisionTransformer(
        SIZE, 16, embed_dim=96, depth=3, num_heads=3, num_classes=CLASSES
    ),
}


def batch() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    images = random.normal(0.1, 1, (BATCH, 3, SIZE, SIZE)).astype(np.float32)
    return images, random.integers(0, CLASSES, BATCH).astype(np.int32)


def set_weights(net: Any) -> None:
    """Give every parameter a value of its own, so that no scale is 1 and no bias is 0."""
    for name, parameter in net.parameters_and_names():
        if parameter.dtype != ms.float32 or name.endswith(("attn_mask", "relative_bias.index")):
            continue
        draw = np.random.default_rng(zlib.crc32(name.encode())).normal(0, 1, parameter.shape)
        last = name.rpartition(".")[2]
        if last in ("moving_variance", "gamma", "gamma_", "layer_scale_1", "layer_scale_2"):
            value = 1 + 0.2 * np.abs(draw)
        elif draw.ndim == 1:
            value = 0.1 * draw
        else:
            value = draw / np.sqrt(np.prod(draw.shape[1:]))
        parameter.set_data(Tensor(value.astype(np.float32)))


def record(name: str, directory: str) -> None:
    net = NETS[name]()
    set_weights(net)
    net.set_train()
    for _, cell in net.cells_and_names():
        if isinstance(cell, nn.Dropout):
            cell.set_train(False)  # the random numbers of two frameworks differ
    optimizer = nn.Momentum(net.trainable_params(), RATE, MOMENTUM)
    loss = nn.CrossEntropyLoss()
    function = ms.value_and_grad(lambda x, y: loss(net(x), y), None, optimizer.parameters)
    images, labels = map(Tensor, batch())
    recorder = StepRecorder(
        directory, steps=1, whole_tensors=True, whole_tensors_max_bytes=4_000_000_000
    )
    with recorder.step(net, optimizer, (images, labels)) as loss_is:
        value, gradients = function(images, labels)
        optimizer(gradients)
        loss_is(value)


if __name__ == "__main__":
    ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
    for name in sys.argv[2:] or NETS:
        began = time.perf_counter()
        record(name, os.path.join(sys.argv[1], name))
        print(f"{name}: {time.perf_counter() - began:.1f} s", flush=True)
