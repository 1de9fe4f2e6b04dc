"""Record a step of the six nets in PyTorch: ``python -m ... DIRECTORY [NET ...]``."""

from __future__ import annotations

import os
import sys

import torch

from tests.porting.comparison.chains.nets_torch import NETS, train

if __name__ == "__main__":
    torch.set_num_threads(1)
    for kind in sys.argv[2:] or NETS:
        train(kind, os.path.join(sys.argv[1], kind), whole_tensors=True)
