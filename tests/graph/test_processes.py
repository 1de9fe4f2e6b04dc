"""Several processes: rank zero observes its own part of the step, and nobody waits for anybody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindsummary_lightning import SummaryReader
from mindsummary_lightning.values import DataType, TensorType
from tests.graph.reader_rules import broken_rules, edges
from tests.trainer.support import SHARDS_ON_CPU, run_script_on_two_ranks

pytestmark = pytest.mark.slow

_DDP = """
import json, sys
from pathlib import Path
import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from mindsummary_lightning import MindInsightLogger, SummaryCollector

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.example_input_array = torch.ones(2, 4)
        self.first, self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 2)
        self.losses = []

    def forward(self, x):
        hidden = self.first(x).relu()
        mean = hidden.detach().mean()
        torch.distributed.all_reduce(mean)  # a process that came here alone would wait forever
        return self.up(hidden / mean) if mean > 0 else self.down(hidden)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        if x.sum() > 1e9:
            loss = loss * 2
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

def main(directory):
    for name, callbacks in (("plain", []), ("observed", [SummaryCollector(collect_freq=1)])):
        L.seed_everything(5)
        net = Net()
        data = TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,)))
        logger = MindInsightLogger(directory, name=name, version="run") if callbacks else False
        trainer = L.Trainer(accelerator="cpu", devices=2, strategy="ddp_find_unused_parameters_true", max_epochs=1,
                            logger=logger, callbacks=callbacks, enable_checkpointing=False, enable_progress_bar=False,
                            enable_model_summary=False)
        trainer.fit(net, DataLoader(data, 4))
        weights = {key: value.tolist() for key, value in net.state_dict().items()}
        Path(directory, f"{name}{trainer.global_rank}.json").write_text(json.dumps([net.losses, weights]))

if __name__ == "__main__":
    main(sys.argv[1])
"""


def test_ddp_with_a_collective_in_forward_and_a_branch_on_data(tmp_path: Path) -> None:
    done = run_script_on_two_ranks(_DDP, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]

    for rank in (0, 1):
        plain, observed = (
            json.loads((tmp_path / f"{name}{rank}.json").read_text(encoding="utf-8"))
            for name in ("plain", "observed")
        )
        assert observed == plain
    graph = SummaryReader(tmp_path / "observed" / "run").graph()
    assert broken_rules(graph) == []
    sources = {source for source, _ in edges(graph)}
    assert {"batch.0", "batch.1", "first.weight", "up.weight"} <= sources
    assert [node.op_type for node in graph.nodes if node.name == graph.outputs[0].name] == [
        "CrossEntropyLoss"
    ]
    lines = [line for line in done.stderr.splitlines() if "the computational graph" in line]
    assert len(lines) == 1
    assert "one of 2 processes" in lines[0]


_SHARDED = """
import json, sys
from pathlib import Path
import lightning as L
import torch
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from mindsummary_lightning import SummaryCollector

class FsdpOnCpu(FSDPStrategy):
    # Lightning's strategy="fsdp", which asks for a GPU by its own rule and shards on CPUs as well.
    def _setup_model(self, model):
        return FullyShardedDataParallel(model, device_id=torch.device("cpu"), **self.kwargs)

class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2)
        self.losses = []

    def configure_model(self):
        if isinstance(self.trainer.strategy, ModelParallelStrategy):
            for part in (self.first, self.second):
                fully_shard(part, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.second(self.first(x)), y)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

KINDS = {
    "FSDP": lambda: FsdpOnCpu(auto_wrap_policy={nn.Sequential}),
    "checkpointed": lambda: FsdpOnCpu(
        auto_wrap_policy={nn.Sequential}, activation_checkpointing_policy={nn.Sequential}
    ),
    "FSDP2": ModelParallelStrategy,
}

def main(directory):
    for kind in sys.argv[2:]:
        for name in ("plain", "observed"):
            L.seed_everything(5)
            net = Net()
            data = TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,)))
            callbacks = [SummaryCollector(Path(directory, kind), 1)] if name == "observed" else []
            trainer = L.Trainer(accelerator="cpu", devices=2, strategy=KINDS[kind](), max_epochs=2, logger=False,
                                callbacks=callbacks, enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False)
            trainer.fit(net, DataLoader(data, 4))
            Path(directory, f"{kind}-{name}{trainer.global_rank}.json").write_text(json.dumps(net.losses))

if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.fixture(scope="module")
def sharded_runs(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    directory = tmp_path_factory.mktemp("sharded")
    kinds = (
        ["FSDP", "checkpointed", "FSDP2"] if pytestconfig.getoption("--full") else ["FSDP", "FSDP2"]
    )
    done = run_script_on_two_ranks(_SHARDED, directory, *kinds)
    assert done.returncode == 0, done.stderr[-3000:]
    return directory


@SHARDS_ON_CPU
@pytest.mark.parametrize(
    "kind", ["FSDP", pytest.param("checkpointed", marks=pytest.mark.long), "FSDP2"]
)
def test_a_sharded_model_trains_the_same_and_shows_whole_parameters(
    kind: str, sharded_runs: Path
) -> None:
    for rank in (0, 1):
        plain, observed = (
            json.loads((sharded_runs / f"{kind}-{name}{rank}.json").read_text(encoding="utf-8"))
            for name in ("plain", "observed")
        )
        assert observed == plain
    graph = SummaryReader(sharded_runs / kind).graph()
    assert broken_rules(graph) == []
    assert [node.full_name for node in graph.nodes] == [
        "first-Sequential/0-Linear/Linear-op1",
        "first-Sequential/1-ReLU/ReLU-op2",
        "second-Linear/Linear-op3",
        "CrossEntropyLoss-op4",
    ]
    shapes = {parameter.name: parameter.type for parameter in graph.parameters}
    assert shapes["first.0.weight"] == TensorType(DataType.FLOAT32, (8, 4))
    assert shapes["second.weight"] == TensorType(DataType.FLOAT32, (2, 8))
    assert {"first.0.bias", "second.bias", "batch.0", "batch.1"} <= {
        source for source, _ in edges(graph)
    }
