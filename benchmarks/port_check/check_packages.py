"""Check nets of torchvision and timm against mindcv's steps.

Run ``python check_packages.py RUNS [NET ...]``. ``record_mindcv.py`` makes the runs. It needs
torchvision and timm. What must be named is in ``truth.py``.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import timm
import torch
from timm.models.mlp_mixer import MlpMixer
from torch import nn
from torchvision import models
from truth import TRUTHS

from mindsummary_lightning import check_port

CLASSES, SIZE = 10, 64
RATE, MOMENTUM = 0.01, 0.9

NETS: dict[str, Callable[[], nn.Module]] = {
    "resnet50": lambda: models.resnet50(num_classes=CLASSES),
    "mobilenet_v2": lambda: models.mobilenet_v2(num_classes=CLASSES, dropout=0),
    "mobilenet_v3_small": lambda: models.mobilenet_v3_small(num_classes=CLASSES, dropout=0),
    "efficientnet_b0": lambda: models.efficientnet_b0(
        num_classes=CLASSES, dropout=0, stochastic_depth_prob=0
    ),
    "mnasnet": lambda: models.mnasnet1_0(num_classes=CLASSES, dropout=0),
    "regnet_y_400mf": lambda: models.regnet_y_400mf(num_classes=CLASSES),
    "densenet121": lambda: models.densenet121(num_classes=CLASSES),
    "shufflenet_v2": lambda: models.shufflenet_v2_x1_0(num_classes=CLASSES),
    "squeezenet1_0": lambda: models.squeezenet1_0(num_classes=CLASSES, dropout=0),
    "ghostnet": lambda: timm.create_model("ghostnet_100", num_classes=CLASSES, drop_rate=0),
    "poolformer": lambda: timm.create_model("poolformer_s12", num_classes=CLASSES),
    "convnext": lambda: timm.create_model(
        "convnext_tiny", num_classes=CLASSES, depths=(1, 1, 2, 1), dims=(32, 64, 128, 256)
    ),
    "mixer": lambda: MlpMixer(
        num_classes=CLASSES, img_size=SIZE, patch_size=8, num_blocks=4, embed_dim=64
    ),
    "swin": lambda: models.SwinTransformer(
        patch_size=[4, 4],
        embed_dim=32,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=[4, 4],
        stochastic_depth_prob=0,
        num_classes=CLASSES,
    ),
    "vit": lambda: timm.models.VisionTransformer(
        img_size=SIZE, patch_size=16, embed_dim=96, depth=3, num_heads=3, num_classes=CLASSES
    ),
}


def check(name: str, reference: str) -> None:
    """Print what is missed, and what is named beyond the truth."""
    torch.manual_seed(0)
    net = NETS[name]().train()
    optimizer = torch.optim.SGD(net.parameters(), RATE, momentum=MOMENTUM)

    def step(batch: Any) -> torch.Tensor:
        images, labels = batch
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images), labels.long())
        loss.backward()
        optimizer.step()
        return loss

    began = time.perf_counter()
    report = check_port(net, reference, step)
    seconds = time.perf_counter() - began
    truth = TRUTHS[name]
    modules = {finding.module for finding in report.findings if finding.kind != "weights"}
    missed = [
        each for each in truth.expected if not any(re.fullmatch(each, module) for module in modules)
    ]
    known = [*truth.expected, *truth.possible]
    extra = sorted(
        module for module in modules if not any(re.fullmatch(each, module) for each in known)
    )
    found = report.to_dict()
    print(f"{name}: {seconds:.1f} s, {found['paired_calls']} calls, named {sorted(modules)}")
    print(
        f"  missed {missed}, extra {extra}, greatest distances {found['greatest_distances']}",
        flush=True,
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[2:] or NETS:
        check(name, os.path.join(sys.argv[1], name))
