"""A summary operator on a step that is not collected, beside a module that does nothing.

``python benchmarks/operators.py [--calls N] [--rounds N]``. The difference is what each operator in
a model costs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))

import paired
import torch
from torch import nn

from mindsummary_lightning import TensorSummary, scalar_summary


class Empty(nn.Module):
    """A module that does nothing."""

    def forward(self, name: str, value: Any) -> None:
        """Do nothing."""


def nothing(name: str, value: Any) -> None:
    pass


def per_call(call: Callable[[str, Any], object], calls: int) -> float:
    value = torch.ones(64, 64)
    numbers = range(calls)
    start = time.perf_counter()
    for _ in numbers:
        call("name", value)
    return (time.perf_counter() - start) / calls


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    kinds = {
        "module": {"empty module": Empty(), "TensorSummary": TensorSummary()},
        "function": {"empty function": nothing, "scalar_summary": scalar_summary},
    }
    rows = {
        kind: paired.rounds_of(
            {
                name: (lambda call=call: per_call(call, arguments.calls))
                for name, call in ways.items()
            },
            arguments.rounds,
        )
        for kind, ways in kinds.items()
    }
    title = "A summary operator on a step that is not collected"
    paired.report("operators", title, "us a call", 1e6, rows, first="empty")


if __name__ == "__main__":
    main()
