"""Several processes: rank zero observes its own part of the step, and nobody waits for anybody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindsummary_lightning import SummaryReader
from mindsummary_lightning.values import DataType, TensorType
from tests.graph.reader_rules import broken_rules, edges
from tests.trainer.support import run_script

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
    done = run_script(_DDP, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]

    for rank in (0, 1):
        plain, observed = (json.loads((tmp_path / f"{name}{rank}.json").read_text()) for name in ("plain", "observed"))
        assert observed == plain
    graph = SummaryReader(tmp_path / "observed" / "run").graph()
    assert graph is not None
    assert broken_rules(graph) == []
    sources = {source for source, _ in edges(graph)}
    assert {"batch.0", "batch.1", "first.weight", "up.weight"} <= sources
    assert [node.op_type for node in graph.nodes if node.name == graph.outputs[0].name] == ["CrossEntropyLoss"]
    lines = [line for line in done.stderr.splitlines() if "the computational graph" in line]
    assert len(lines) == 1
    assert "one of 2 processes" in lines[0]


_FSDP2 = """
import json, os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import fully_shard
from mindsummary_lightning import SummaryRecord
from mindsummary_lightning.graph.step_observer import StepObserver

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2)

    def training_step(self, batch, batch_idx):
        return self(batch).square().mean()

    def forward(self, x):
        return self.second(self.first(x))

def main(rank, directory):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2], RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    mesh = dist.init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    net = Net()
    fully_shard(net.first, mesh=mesh)
    fully_shard(net, mesh=mesh)
    losses = []
    observer = StepObserver(net)
    for step in range(2):
        if rank == 0 and step == 0:
            observer.arm()
        loss = net.training_step(torch.ones(3, 4) * (step + 1), step)
        loss.backward()
        losses.append(loss.item())
    if rank == 0:
        assert observer.error is None, observer.error
        with SummaryRecord(directory) as record:
            record.write_graph(observer.graph)
    dist.destroy_process_group()
    os._exit(0)  # the threads of gloo now and then abort a process that ends by itself

if __name__ == "__main__":
    mp.spawn(main, (sys.argv[1],), nprocs=2)
"""


def test_fsdp2_shows_whole_parameters_under_their_names(tmp_path: Path, free_port: int) -> None:
    done = run_script(_FSDP2, tmp_path, free_port)
    assert done.returncode == 0, done.stderr[-3000:]

    graph = SummaryReader(tmp_path).graph()
    assert graph is not None
    assert [node.scope for node in graph.nodes][:3] == [
        "first-Sequential/0-Linear",
        "first-Sequential/1-ReLU",
        "second-Linear",
    ]
    shapes = {parameter.name: parameter.type for parameter in graph.parameters}
    assert shapes["first.0.weight"] == TensorType(DataType.FLOAT32, (8, 4))
    assert {"first.0.bias", "second.weight", "second.bias", "batch"} <= {source for source, _ in edges(graph)}


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
