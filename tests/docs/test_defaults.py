"""The table of defaults that differ: MindSpore's as the parity session wrote them, PyTorch's as
they are.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.docs.pages import ROOT

torch = pytest.importorskip("torch")
nn = torch.nn


def _first_adam_step(eps: float) -> float:
    weight = nn.Parameter(torch.zeros(1))
    weight.grad = torch.full((1,), eps)
    torch.optim.Adam([weight], lr=1.0, eps=eps).step()
    return round(-float(weight), 2)


def _defaults_of_torch() -> dict[str, object]:
    torch.manual_seed(1)
    decay = torch.optim.SGD(nn.BatchNorm1d(4).parameters(), 0.1, weight_decay=0.1).param_groups[0][
        "weight_decay"
    ]
    return {
        "parameters that weight decay reaches": ["weight", "bias", "gamma", "beta"]
        if decay
        else [],
        "GELU": {"none": "exact"}[nn.GELU().approximate],
        "LayerNorm epsilon": nn.LayerNorm(2).eps,
        "BatchNorm2d momentum": nn.BatchNorm2d(2).momentum,
        "Conv2d padding": nn.Conv2d(1, 1, 3).padding[0],
        "Conv2d bias": nn.Conv2d(1, 1, 3).bias is not None,
        "MaxPool2d(2) stride": nn.MaxPool2d(2).stride,
        "LeakyReLU slope": nn.LeakyReLU().negative_slope,
        "Embedding standard deviation": round(
            float(nn.Embedding(1000, 64).weight.detach().std()), 2
        ),
        "AdamW epsilon": torch.optim.AdamW([nn.Parameter(torch.zeros(1))]).defaults["eps"],
        "Adam's first step on a gradient as small as epsilon": _first_adam_step(1e-6),
        "cross entropy of a batch": nn.CrossEntropyLoss().reduction,
    }


def test_the_table_of_defaults_is_what_both_frameworks_do() -> None:
    def written(value: object) -> str:
        return ", ".join(value) if isinstance(value, list) else str(value)

    page = (ROOT / "docs" / "reference" / "mindspore-classes.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \| (.+?) \|$",
        page.partition("## Defaults that differ")[2],
        re.MULTILINE,
    )
    theirs = json.loads(
        (ROOT / "tests" / "golden" / "mindspore_defaults.json").read_text(encoding="utf-8")
    )
    ours = _defaults_of_torch()

    assert rows[1:] == [(name, written(theirs[name]), written(ours[name])) for name in theirs]
    assert theirs.keys() == ours.keys()
