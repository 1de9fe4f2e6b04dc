"""A physics-informed network: gradients inside the loss, LBFGS with its closure, no labels."""

from __future__ import annotations

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader

from tests.trainings.training import Training


class Oscillator(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1))
        self.stiffness = nn.Parameter(torch.tensor(1.0))

    def training_step(self, t, batch_idx):
        t = t.requires_grad_()
        x = self.net(t)
        (velocity,) = torch.autograd.grad(x.sum(), t, create_graph=True)
        (acceleration,) = torch.autograd.grad(velocity.sum(), t, create_graph=True)
        start = self.net(torch.zeros(1, 1))
        loss = (acceleration + self.stiffness * x).square().mean() + (start - 1).square().mean()
        self.log("residual", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=4)


def _data():
    return {"train_dataloaders": DataLoader(torch.rand(32, 1), batch_size=16)}


TRAINING = Training(Oscillator, _data, {"max_epochs": 3})
