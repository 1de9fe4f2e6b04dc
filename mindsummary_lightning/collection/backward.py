"""Whether a backward pass runs."""

from __future__ import annotations

import torch


def in_backward() -> bool:
    """Whether autograd is running a backward pass here; activation checkpointing then repeats a forward pass.

    Reads ``torch._C._current_graph_task_id`` (torch 2.5 to 2.13). Without it, what is repeated is recorded, too.
    """
    current = getattr(torch._C, "_current_graph_task_id", None)
    return current is not None and current() != -1
