"""A user's hyper-parameters wait for a run that records a value, and are recorded once."""

from __future__ import annotations

import pickle
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mindsummary_lightning import SummaryReader
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.trainer.waiting_hyperparameters import WaitingHyperparameters
from mindsummary_lightning.values import UserDefinedInfo


@pytest.fixture
def waiting() -> WaitingHyperparameters:
    waiting = WaitingHyperparameters()
    waiting.add(UserDefinedInfo({"a": 1}))
    waiting.add(UserDefinedInfo({"b": 2}))
    return waiting


def _recorded(folder: Path, hand: Any) -> dict[str, Any]:
    """What a run records to which they are handed."""
    with closing(RunRecorder(str(folder))) as record:
        hand(record)
        record.write_values(1, [("loss", 0.5)])
    lineage = SummaryReader(folder).lineage()
    return {} if lineage is None or lineage.custom is None else dict(lineage.custom.values)


def test_they_are_handed_to_one_run_and_again_to_its_next_recorder(
    tmp_path: Path, waiting: WaitingHyperparameters
) -> None:
    assert _recorded(tmp_path / "1", waiting.hand_to) == {"a": 1, "b": 2}
    assert _recorded(tmp_path / "2", waiting.hand_to) == {}
    assert _recorded(tmp_path / "3", waiting.hand_again) == {"a": 1, "b": 2}
    waiting.settle(is_recorded=True)
    assert _recorded(tmp_path / "4", waiting.hand_to) == {}
    assert _recorded(tmp_path / "5", waiting.hand_again) == {}


def test_a_run_that_recorded_nothing_leaves_them_to_the_next_before_newer_ones(
    tmp_path: Path, waiting: WaitingHyperparameters
) -> None:
    waiting.hand_to(RunRecorder(str(tmp_path / "1")))
    waiting.add(UserDefinedInfo({"b": 3}))
    waiting.settle(is_recorded=False)

    assert _recorded(tmp_path / "2", waiting.hand_again) == {}
    assert _recorded(tmp_path / "3", waiting.hand_to) == {"a": 1, "b": 3}


def test_a_copy_in_another_process_has_those_of_its_run_alone(
    tmp_path: Path, waiting: WaitingHyperparameters
) -> None:
    waiting.hand_to(RunRecorder(str(tmp_path / "1")))
    waiting.add(UserDefinedInfo({"later": 3}))
    copied = pickle.loads(pickle.dumps(waiting))

    assert _recorded(tmp_path / "2", copied.hand_to) == {}
    assert _recorded(tmp_path / "3", copied.hand_again) == {"a": 1, "b": 2}
