"""`Training`: what a script of this folder hands to the test: a seeded way to build it, and the
Trainer's arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import lightning as L


@dataclass(frozen=True)
class Training:
    """A training in the style of a real project.

    Attributes:
        module: makes the LightningModule; called after seeding.
        data: arguments of ``Trainer.fit`` behind the module; called after seeding.
        trainer: arguments of the Trainer beside loggers and directories.
        callbacks: makes the project's own callbacks.
        collector: arguments of the SummaryCollector.
        tests: whether ``Trainer.test`` runs after the fit, on the first loader.
    """

    module: Callable[[], L.LightningModule]
    data: Callable[[], Mapping[str, Any]]
    trainer: Mapping[str, Any] = field(default_factory=dict)
    callbacks: Callable[[], list[L.Callback]] = list
    collector: Mapping[str, Any] = field(default_factory=dict)
    tests: bool = False
