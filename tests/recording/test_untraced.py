"""Recording calls are not traced by torch's compiler, wherever they are made.

Torch has no warning for them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from mindsummary_lightning import MindInsightLogger, SummaryReader, SummaryRecord
from mindsummary_lightning.recording.untraced import refused_in_compiled_code

Call = Callable[[Any, int, torch.Tensor], None]


def _keep(record: SummaryRecord, step: int, x: torch.Tensor) -> None:
    record.add_value("scalar", "a", x.sum())
    record.record(step)


OF_A_RECORD: dict[str, Call] = {
    "a scalar": lambda record, step, x: record.add_scalar("a", x.sum(), step),
    "a histogram": lambda record, step, x: record.add_histogram("a", x, step),
    "an image": lambda record, step, x: record.add_image("a", x.reshape(1, 8, 8).sigmoid(), step),
    "a value": _keep,
}
OF_A_LOGGER: dict[str, Call] = {
    "metrics": lambda logger, step, x: logger.log_metrics({"a": x.sum()}, step),
    "a histogram": lambda logger, step, x: logger.log_histogram("a", x, step),
    "the experiment": lambda logger, step, x: logger.experiment.add_scalar("a", x.sum(), step),
}


def _check_untraced(call: Call, target: Any) -> None:
    torch._dynamo.reset()
    counters.clear()

    def step(number: int, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        call(target, number, y)
        return y.relu()

    compiled = torch.compile(step, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Guards may run slower on Python")  # said by PyTorch
        for number in range(12):
            compiled(number, torch.ones(64))
    reasons = {reason.partition("\n")[0] for reason in counters["graph_break"]}
    assert reasons
    assert all("disable" in reason for reason in reasons)
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.parametrize("what", OF_A_RECORD)
def test_what_a_record_is_given_in_compiled_code_is_recorded_and_not_traced(
    tmp_path: Path, what: str
) -> None:
    _check_untraced(OF_A_RECORD[what], SummaryRecord(tmp_path))

    assert SummaryReader(tmp_path).tags()


@pytest.mark.slow
@pytest.mark.parametrize("what", OF_A_LOGGER)
def test_what_a_logger_is_given_in_compiled_code_is_recorded_and_not_traced(
    tmp_path: Path, what: str
) -> None:
    logger = MindInsightLogger(tmp_path)
    _check_untraced(OF_A_LOGGER[what], logger)

    assert SummaryReader(logger.log_dir).tags()


def test_the_compiler_is_as_before_when_a_call_raises(tmp_path: Path) -> None:
    if not hasattr(torch._C._dynamo.eval_frame, "get_eval_frame_callback"):
        pytest.skip("this PyTorch does not tell what compiles its frames")
    callback = torch._C._dynamo.eval_frame.get_eval_frame_callback()
    with pytest.raises(TypeError):
        SummaryRecord(tmp_path).add_scalar(3, 1.0)  # type: ignore[arg-type]

    assert torch._C._dynamo.eval_frame.get_eval_frame_callback() is callback


def _switches() -> Any:
    switches = torch._C._dynamo.eval_frame
    if not hasattr(switches, "get_eval_frame_callback"):
        pytest.skip("this PyTorch does not tell what compiles its frames")
    return switches


def test_the_compiler_rests_during_a_call_and_is_as_before_after_it(tmp_path: Path) -> None:
    switches, record, seen = _switches(), SummaryRecord(tmp_path), []

    class Number(list[float]):
        def __iter__(self) -> Any:
            seen.append(switches.get_eval_frame_callback())
            return super().__iter__()

    before = switches.set_eval_frame(False)  # as in compiled code, and nothing is compiled
    try:
        record.add_histogram("h", Number([1.0, 2.0]), 1)
        after = switches.get_eval_frame_callback()
    finally:
        switches.set_eval_frame(before)

    assert seen
    assert (set(seen), after) == ({None}, False)
    assert SummaryReader(tmp_path).tags()["histogram"] == ["h"]


def test_what_is_refused_in_compiled_code_is_called_outside_of_it() -> None:
    switches = _switches()
    double = refused_in_compiled_code(lambda number: 2 * number)
    assert double(3) == 6

    before = switches.set_eval_frame(False)
    try:
        with pytest.raises(RuntimeError, match="must be called outside of compiled code"):
            double(3)
    finally:
        switches.set_eval_frame(before)
    assert double(4) == 8
