"""A recommender with sparse embeddings and two optimizers, one of them SparseAdam."""

from __future__ import annotations

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.trainings.training import Training


class Recommender(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.users = nn.Embedding(50, 8, sparse=True)
        self.items = nn.EmbeddingBag(80, 8, mode="mean", sparse=True)
        self.tower = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))

    def training_step(self, batch, batch_idx):
        user, items, rating = batch
        predicted = self.tower(torch.cat([self.users(user), self.items(items)], 1)).squeeze(1)
        loss = F.mse_loss(predicted, rating)
        for optimizer in self.optimizers():
            optimizer.zero_grad()
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()
        self.log("rmse", loss.sqrt())
        return loss

    def configure_optimizers(self):
        sparse = [*self.users.parameters(), *self.items.parameters()]
        return torch.optim.SparseAdam(sparse, lr=0.01), torch.optim.Adagrad(
            self.tower.parameters(), lr=0.01
        )


def _data():
    ratings = TensorDataset(
        torch.randint(0, 50, (40,)), torch.randint(0, 80, (40, 3)), torch.rand(40) * 5
    )
    return {"train_dataloaders": DataLoader(ratings, 10, shuffle=True)}


TRAINING = Training(Recommender, _data, {"max_epochs": 3}, collector={"collect_gradients": ".*"})
