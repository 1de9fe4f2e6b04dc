"""Write the defaults of MindSpore that a port meets first: ``python write_defaults.py --output
FILE``.
"""

from __future__ import annotations

import argparse
import inspect
import json
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn


def default(cell, argument):
    return inspect.signature(cell.__init__).parameters[argument].default


def decayed():
    """Names of a normalized layer's parameters that an optimizer with weight decay decays."""
    net = nn.SequentialCell(nn.Dense(4, 4), nn.BatchNorm1d(4))
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9, weight_decay=0.1)
    names = [parameter.name.rpartition(".")[2] for parameter in optimizer.parameters]
    return [
        name for name, is_decayed in zip(names, optimizer.decay_flags, strict=True) if is_decayed
    ]


def first_adam_step(eps):
    """The first step of Adam with learning rate 1 on a gradient of ``eps``: 0.5 if eps is added to
    the root itself.
    """
    parameter = ms.Parameter(ms.Tensor(np.zeros(1, np.float32)), name="weight")
    nn.Adam([parameter], learning_rate=1.0, eps=eps)((ms.Tensor(np.full(1, eps, np.float32)),))
    return round(float(-parameter.asnumpy()[0]), 2)


def defaults():
    ms.set_seed(1)
    return {
        "parameters that weight decay reaches": decayed(),
        "GELU": "tanh" if default(nn.GELU, "approximate") else "exact",
        "LayerNorm epsilon": default(nn.LayerNorm, "epsilon"),
        "BatchNorm2d momentum": default(nn.BatchNorm2d, "momentum"),
        "Conv2d padding": default(nn.Conv2d, "pad_mode"),
        "Conv2d bias": default(nn.Conv2d, "has_bias"),
        "MaxPool2d(2) stride": default(nn.MaxPool2d, "stride"),
        "LeakyReLU slope": default(nn.LeakyReLU, "alpha"),
        "Embedding standard deviation": round(
            float(nn.Embedding(1000, 64).embedding_table.asnumpy().std()), 2
        ),
        "AdamW epsilon": default(nn.AdamWeightDecay, "eps"),
        "Adam's first step on a gradient as small as epsilon": first_adam_step(1e-6),
        "cross entropy of a batch": default(nn.SoftmaxCrossEntropyWithLogits, "reduction"),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    parser.parse_args().output.write_text(json.dumps(defaults(), indent=2) + "\n", encoding="utf-8")
