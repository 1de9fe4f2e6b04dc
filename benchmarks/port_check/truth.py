"""What differs between two packages' implementations of one net; written before any pair was run.

Three were wrong and are corrected after reading the packages' code: EfficientNet's, whose
BatchNorms agree while its convolutions of stride 2 are padded otherwise; PoolFormer's, whose head
is code of the network itself; ShuffleNet's, whose first block of stage 2 has other widths, and
whose last layer has a bias in the port only.

Names are those of the port, torchvision's or timm's, as regular expressions that match in full.
"""

from __future__ import annotations

from dataclasses import dataclass

_BATCH_NORM = r"(.*\.)?(bn\d*|norm\d*|0\.1|block\.\d+\.1|layers\.\d+(\.\d+)*)"


@dataclass(frozen=True)
class Truth:
    """What a run of the port must name, and what it may name too.

    ``expected`` are patterns that at least one finding has to match each. ``possible`` are
    differences that are there but may be below the tolerance. A finding that matches neither is an
    extra finding.
    """

    package: str
    expected: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()
    why: str = ""


TRUTHS = {
    "resnet50": Truth("torchvision", ("maxpool",), why="pad_mode same pads right and below alone"),
    "mobilenet_v2": Truth("torchvision"),
    "mobilenet_v3_small": Truth(
        "torchvision",
        (
            r"features\.1\.block\.0\.0",
            r"features\.2\.block\.1\.0",
            r"features\.4\.block\.1\.0",
            r"features\.9\.block\.1\.0",
            r"features\.\d+(\.block\.\d+)?\.1",
        ),
        why="pad_mode same in the depthwise convolutions of stride 2, "
        "and epsilon 1e-3 of every BatchNorm here",
    ),
    "efficientnet_b0": Truth(
        "torchvision",
        (r"features\.0\.0", *(rf"features\.{stage}\.0\.block\.1\.0" for stage in (2, 3, 4, 6))),
        why="pad_mode same in the convolutions of stride 2",
    ),
    "mnasnet": Truth(
        "torchvision",
        (r"layers\.\d+(\.\d+\.layers\.\d+)?",),
        why="epsilon 1e-3 and momentum of every BatchNorm there",
    ),
    "regnet_y_400mf": Truth("torchvision"),
    "densenet121": Truth("torchvision"),
    "shufflenet_v2": Truth(
        "torchvision",
        ("maxpool", r"stage2\.0\.branch2", "fc"),
        (r"stage\d\.\d+",),
        why="pad_mode same; 92 channels there and 58 here; a bias; "
        "channels are shuffled at the end of a block here",
    ),
    "squeezenet1_0": Truth(
        "torchvision", (r"features\.6", r"features\.11"), why="ceil_mode of max pools"
    ),
    "ghostnet": Truth("timm"),
    "convnext": Truth(
        "timm", (r"stages\.\d\.blocks\.\d\.mlp\.act",), why="GELU of MindSpore is tanh's by default"
    ),
    "mixer": Truth(
        "timm",
        (r"blocks\.\d\.mlp_tokens\.act", r"blocks\.\d\.mlp_channels\.act"),
        (r"blocks\.\d\.norm\d", "norm", r"stem\.proj"),
        why="GELU; epsilon of LayerNorm 1e-7 there; the port's stem has a bias that is not there",
    ),
    "swin": Truth(
        "torchvision",
        (r"features\.\d\.\d\.mlp\.1",),
        (r"features\.2\.norm", r"features\.2\.reduction"),
        why="GELU; epsilon 1e-7 of the norm where patches are merged",
    ),
    "vit": Truth(
        "timm",
        (r"blocks\.\d\.mlp\.act",),
        (r"blocks\.\d\.norm\d", "norm"),
        why="GELU; epsilon of LayerNorm 1e-7 there, 1e-6 here",
    ),
    "poolformer": Truth(
        "timm",
        ("",),
        why="normalized as a map before its mean there, as a vector after it here",
    ),
}
