"""A graph network on batches that are objects of the project's own, as PyTorch Geometric makes them."""

from __future__ import annotations

from dataclasses import dataclass

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from tests.trainings.training import Training


@dataclass
class Graphs:
    x: torch.Tensor
    edge_index: torch.Tensor
    batch: torch.Tensor
    y: torch.Tensor

    def to(self, device, non_blocking=False):
        return Graphs(*(tensor.to(device) for tensor in (self.x, self.edge_index, self.batch, self.y)))


class Convolution(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.lin = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x, edge_index):
        source, target = edge_index
        x = self.lin(x)
        return torch.zeros_like(x).index_add(0, target, x[source]) + self.bias


class GraphClassifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([Convolution(5, 8), Convolution(8, 8)])
        self.norm = nn.BatchNorm1d(8)
        self.classify = nn.Linear(8, 2)

    def forward(self, x, edge_index, batch):
        for conv in self.convs:
            x = self.norm(conv(x, edge_index)).relu()
        pooled = torch.zeros(int(batch.max()) + 1, 8).index_add(0, batch, x)
        return self.classify(F.dropout(pooled, 0.2, self.training))

    def training_step(self, data, batch_idx):
        scores = self(data.x, data.edge_index, data.batch)
        loss = F.cross_entropy(scores, data.y)
        self.log("loss", loss, batch_size=len(data.y))
        self.log("acc", (scores.argmax(1) == data.y).float().mean(), batch_size=len(data.y))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def _collate(sizes: list[int]) -> Graphs:
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    nodes = len(batch)
    return Graphs(torch.rand(nodes, 5), torch.randint(0, nodes, (2, 3 * nodes)), batch, torch.arange(len(sizes)) % 2)


def _data():
    return {"train_dataloaders": DataLoader([4, 5, 3, 6, 4, 7, 5, 4], batch_size=4, collate_fn=_collate)}


TRAINING = Training(GraphClassifier, _data, {"max_epochs": 4})
