"""What a checkpoint says of its run is read beside objects of any class, none of which is made."""

from __future__ import annotations

import collections
import enum
import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mindsummary_lightning import SummaryCollector
from mindsummary_lightning.trainer import run_identity
from mindsummary_lightning.trainer.plain_checkpoint import plain_values
from mindsummary_lightning.trainer.run_identity import RunIdentity
from tests.trainer.support import Net, loader, trainer


class _Outer:
    class Kind(enum.Enum):
        ONE = 1


class _Slotted:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 1


class _Row(list[int]):
    pass


class _Running:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_plain_values_are_read_beside_any_object_and_no_code_runs(tmp_path: Path) -> None:
    objects = [
        _Outer.Kind.ONE,
        _Slotted(),
        _Row([1, 2]),
        _Running(tmp_path / "made"),
        functools.partial(int, base=2),
        torch.optim.Adam,
        torch.nn.Linear(2, 2),
        np.float64(3),
        np.zeros(3),
        collections.OrderedDict(a=1),
        {frozenset({Path("a")}): {Path("b"): 1}},
    ]
    torch.save({"before": objects, "plain": {"a": [1, "b"]}, "behind": objects}, tmp_path / "a.ckpt")

    assert plain_values(tmp_path / "a.ckpt")["plain"] == {"a": [1, "b"]}
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
def test_a_checkpoint_with_objects_among_its_hyper_parameters_continues_its_run(tmp_path: Path) -> None:
    class Saving(Net):
        def __init__(self, kind: _Outer.Kind) -> None:
            super().__init__()
            self.save_hyperparameters()

    class Resuming:
        global_step = 0

        def fit(self, ckpt_path: Path) -> RunIdentity:
            return run_identity.identify(self, str(tmp_path / "run"))

    running = trainer(logger=False, callbacks=[SummaryCollector(tmp_path / "run", 1)])
    running.fit(Saving(_Outer.Kind.ONE), loader(2))
    running.save_checkpoint(tmp_path / "mine.ckpt")

    assert Resuming().fit(tmp_path / "mine.ckpt") is RunIdentity.CONTINUES
