"""Fifty ports with two to five mistakes each: one run names all of them, and nothing else."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from torch.utils.data import DataLoader

from mindsummary_lightning import PortCheck, PortReport
from tests.porting.comparison.chains import nets_torch

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

_FORWARD, _LOSS, _UPDATE = ("inputs", "output"), ("loss",), ("update",)
_ALL_BLOCKS = ("blocks.0", "blocks.1", "blocks.2")


def _below(*names: str, blocks: tuple[str, ...] = _ALL_BLOCKS) -> tuple[str, ...]:
    return tuple(f"{block}.{name}" for block in blocks for name in names)


# Kinds of finding and modules of which one must be named, by mistake; those of a pair in brackets
# exclude each other.
MISTAKES: dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "transformer": {
        "gelu_tanh": (_FORWARD, ("blocks.0.mlp.act",)),
        "norm_eps": (_FORWARD, _below("norm2")),
        "scale_missing": (_FORWARD, _below("attn")),
        "residual_missing": (_FORWARD, ("blocks.1",)),
        "embedding_scale": (_FORWARD, ("",)),
        "label_smoothing": (_LOSS, ("",)),
        "rate_off": (_UPDATE, ("",)),
    },
    "resnet": {
        "norm_eps": (_FORWARD, ("layers.1.bn1",)),
        "relu_before_adding": (_FORWARD, ("layers.1",)),
        "padding_reflect": (_FORWARD, ("conv",)),
        "average_pool": (_FORWARD, ("pool",)),
        "global_maximum": (_FORWARD, ("",)),
        "loss_weighted": (_LOSS, ("",)),
        "norm_momentum": (_UPDATE, ("bn",)),
    },
    "recurrent": {
        "norm_eps": (_FORWARD, ("norm",)),
        "sigmoid": (_FORWARD, ("act",)),
        "directions_swapped": (_FORWARD, ("",)),
        "label_smoothing": (_LOSS, ("",)),
        "rate_off": (_UPDATE, ("",)),
    },
    "mobilenet": {
        "silu": (_FORWARD, ("blocks.1.act",)),
        "norm_eps": (_FORWARD, _below("bn2")),
        "gate_added": (_FORWARD, _below("se")),
        "relu_in_head": (_FORWARD, ("act",)),
        "dilated": (_FORWARD, ("blocks.1.depth",)),
        "loss_weighted": (_LOSS, ("",)),
    },
    "vit": {
        "gelu_tanh": (_FORWARD, ("blocks.0.mlp.act",)),
        "norm_eps": (_FORWARD, _below("norm2")),
        "scale_missing": (_FORWARD, _below("attn")),
        "residual_missing": (_FORWARD, ("blocks.1",)),
        "cls_of_last": (_FORWARD, ("",)),
        "label_smoothing": (_LOSS, ("",)),
    },
    "unet": {
        "leak": (
            _FORWARD,
            tuple(f"{name}.act" for name in ("down1", "down2", "bottom", "mix2", "mix1")),
        ),
        "groups": (_FORWARD, ("bottom.norm1", "bottom.norm2")),
        "skip_flipped": (_FORWARD, ("",)),
        "average_pool": (_FORWARD, ("pool",)),
        "norm_eps": (
            _FORWARD,
            tuple(f"{name}.norm2" for name in ("down1", "down2", "bottom", "mix2", "mix1")),
        ),
        "loss_weighted": (_LOSS, ("",)),
    },
}


def combinations() -> list[tuple[str, tuple[str, ...]]]:
    """Fifty of them, the same each time."""
    chosen: list[tuple[str, tuple[str, ...]]] = []
    draw = random.Random(0)
    while len(chosen) < 50:
        kind = draw.choice([*MISTAKES])
        count = min(draw.randint(2, 5), len(MISTAKES[kind]))
        chosen.append((kind, tuple(sorted(draw.sample([*MISTAKES[kind]], count)))))
    return chosen


def report_of(
    kind: str, reference: Path, mistakes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> PortReport:
    """The report of a port with some mistakes."""
    monkeypatch.setattr(nets_torch, "wrong", lambda name: name in mistakes)
    torch.manual_seed(0)
    port = nets_torch.Port(kind)
    nets_torch._carry(port)
    check = PortCheck(reference, 1)
    options: dict[str, Any] = {"enable_checkpointing": False, "enable_progress_bar": False}
    trainer = L.Trainer(
        max_epochs=1,
        accelerator="cpu",
        enable_model_summary=False,
        logger=False,
        callbacks=[check],
        **options,
    )
    trainer.fit(port, DataLoader(nets_torch._batches(kind), 8))
    assert check.report is not None
    return check.report


@pytest.mark.parametrize("kind", [*MISTAKES])
def test_all_mistakes_of_a_combination_are_named_in_one_run_and_nothing_else(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    folder = tmp_path / "original"
    nets_torch.train(kind, str(folder), "", collect_output_statistics=(1,), whole_tensors=True)
    missed, extra = [], []
    for mistakes in (mistakes for net, mistakes in combinations() if net == kind):
        report = report_of(kind, folder, mistakes, monkeypatch)
        found = [
            (each.kind, each.module.removeprefix("model").lstrip(".")) for each in report.findings
        ]
        expected = [MISTAKES[kind][mistake] for mistake in mistakes]
        for mistake, (kinds, modules) in zip(mistakes, expected, strict=True):
            if not any(kind_found in kinds and module in modules for kind_found, module in found):
                missed.append((mistakes, mistake, found))
        for kind_found, module in found:
            if not any(kind_found in kinds and module in modules for kinds, modules in expected):
                extra.append((mistakes, kind_found, module))

    assert (missed, extra) == ([], [])
