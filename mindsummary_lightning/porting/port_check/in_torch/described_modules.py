"""Describes modules before their calls; returns the random generator's state."""

from __future__ import annotations

import torch
from torch import nn

from mindsummary_lightning.graph.module_names import module_class_name, module_properties, unwrapped
from mindsummary_lightning.porting.chain.whole_step_recorder import plain_settings
from mindsummary_lightning.porting.port_check.port_frames import PortModule


def described_module(name: str, module: nn.Module) -> PortModule:
    """Describe a module of the port by name, class and settings."""
    kind = type(unwrapped(module))
    is_library = kind.__module__.startswith("torch.nn.modules.") and kind.__name__ not in (
        "Module",
        "Sequential",
    )
    settings = plain_settings(dict(module_properties(module)))
    return PortModule(name, module_class_name(module), is_library, module.training, settings)


def random_state() -> bytes:
    """Return the state of torch's random generator for the CPU.

    It changes when random numbers are drawn there.
    """
    return torch.get_rng_state().numpy().tobytes()
