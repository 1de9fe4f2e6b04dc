"""One graph per run: from the first training step, once, whatever else records one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mindsummary_lightning import MindInsightLogger, SummaryCollector
from mindsummary_lightning.graph import observation
from mindsummary_lightning.values import Graph
from tests.support import read_events
from tests.trainer.support import Net, loader, trainer


class Wide(Net):
    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(3, 2, bias=False)


def graphs(run: Path | str) -> list[Graph]:
    """Every graph in the files of a run."""
    return [event.what for event in read_events(run) if isinstance(event.what, Graph)]


def op_types(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes]


def fit(directory: Path, net: Net, epochs: int = 1, **options: Any) -> Any:
    running = trainer(
        logger=False,
        callbacks=[SummaryCollector(directory, 1)],
        max_epochs=epochs,
        enable_checkpointing=False,
    )
    running.fit(net, loader(3), **options)
    return running


def test_the_loss_and_the_children_are_the_top_level(tmp_path: Path) -> None:
    fit(tmp_path, Net())

    (graph,) = graphs(tmp_path)
    assert [node.full_name for node in graph.nodes] == [
        "first-Linear/Linear-op1", "ReLU-op2", "second-Linear/Linear-op3", "CrossEntropyLoss-op4"
    ]  # fmt: skip


@pytest.mark.parametrize("where", ["run", "another"])
def test_a_resumed_run_records_a_graph_where_there_is_none(tmp_path: Path, where: str) -> None:
    first = fit(tmp_path / "run", Net(), 1)
    first.save_checkpoint(tmp_path / "saved.ckpt")

    fit(tmp_path / where, Net(), 2, ckpt_path=tmp_path / "saved.ckpt")

    assert len(graphs(tmp_path / where)) == 1


def test_a_resumed_run_with_other_modules_records_theirs(tmp_path: Path) -> None:
    first = fit(tmp_path / "run", Net(), 1)
    first.save_checkpoint(tmp_path / "saved.ckpt")
    saved = torch.load(tmp_path / "saved.ckpt", weights_only=False)
    del saved["state_dict"]["second.bias"]
    saved["optimizer_states"] = [torch.optim.SGD(Wide().parameters(), 0.1).state_dict()]
    torch.save(saved, tmp_path / "saved.ckpt")

    fit(tmp_path / "run", Wide(), 2, ckpt_path=tmp_path / "saved.ckpt")

    assert len(graphs(tmp_path / "run")) == 2


def test_a_run_whose_observation_failed_records_the_graph_when_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("injected by a test")

    with monkeypatch.context() as failing:
        failing.setattr(observation.Observation, "finish", fail)
        first = fit(tmp_path / "run", Net(), 1)
    first.save_checkpoint(tmp_path / "saved.ckpt")
    assert len(graphs(tmp_path / "run")) == 0

    fit(tmp_path / "run", Net(), 2, ckpt_path=tmp_path / "saved.ckpt")

    assert len(graphs(tmp_path / "run")) == 1


def test_the_observed_graph_follows_the_one_of_log_graph(tmp_path: Path) -> None:
    net = Net()
    net.example_input_array = torch.ones(2, 4)
    logger = MindInsightLogger(tmp_path, name="", version="run")

    trainer(logger=logger, callbacks=[SummaryCollector()]).fit(net, loader(3))

    of_forward, observed = graphs(tmp_path / "run")
    assert op_types(of_forward) == ["Linear", "ReLU", "Linear"]
    assert op_types(observed) == ["Linear", "ReLU", "Linear", "CrossEntropyLoss"]


def test_log_graph_says_in_one_line_what_it_cannot_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = MindInsightLogger(tmp_path, name="", version="run")

    logger.log_graph(Net(), torch.ones(2, 5))

    (line,) = [record.getMessage() for record in caplog.records if "graph" in record.getMessage()]
    assert line.startswith("the computational graph is not recorded: Net: RuntimeError: ")
    assert "mat1 and mat2 shapes" in line
    assert "\n" not in line
    assert capfd.readouterr() == ("", "")


def test_log_graph_survives_an_error_that_cannot_say_what_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no message")

    class Failing(Net):
        def forward(self, batch: Any) -> Any:
            raise MuteError

    MindInsightLogger(tmp_path, name="", version="run").log_graph(Failing(), torch.ones(2, 4))

    assert "Failing: MuteError: MuteError" in caplog.text


def test_a_step_that_is_skipped_leaves_the_next_one_to_be_observed(tmp_path: Path) -> None:
    class Skipping(Net):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
            return -1 if self.trainer.current_epoch == 0 else None

    fit(tmp_path, Skipping(), 2)

    assert len(graphs(tmp_path)) == 1


def test_a_training_that_breaks_off_leaves_the_module_as_it_was(tmp_path: Path) -> None:
    class Broken(Net):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            raise ValueError("of the user")

    net = Broken()
    with pytest.raises(ValueError, match="of the user"):
        fit(tmp_path, net)

    assert "training_step" not in vars(net)


def test_the_first_of_accumulated_batches_is_observed(tmp_path: Path) -> None:
    calls: list[int] = []

    class Counting(Net):
        def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
            calls.append(batch_idx)
            return super().training_step(batch, batch_idx) * (batch_idx + 1)

    trainer(logger=False, callbacks=[SummaryCollector(tmp_path, 1)], accumulate_grad_batches=3).fit(
        Counting(), loader(3)
    )

    (graph,) = graphs(tmp_path)
    assert calls == [0, 1, 2]
    assert {constant.value for constant in graph.constants} == {1}


@pytest.mark.parametrize("hook", ["on_after_backward", "on_before_backward"])
def test_the_graph_of_a_first_step_that_breaks_off_after_its_loss_is_recorded(
    tmp_path: Path, hook: str
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("of the user")

    net = type("Broken", (Net,), {hook: fail})()
    with pytest.raises(ValueError, match="of the user"):
        fit(tmp_path, net)

    (graph,) = graphs(tmp_path)
    assert "CrossEntropyLoss" in op_types(graph)
    assert "training_step" not in vars(net)
