"""A forecaster on nested dictionaries of tensors, with quantile loss, ReduceLROnPlateau and early
stopping.
"""

from __future__ import annotations

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping
from torch import nn
from torch.utils.data import DataLoader, Dataset

from tests.trainings.training import Training


class Series(Dataset):
    def __init__(self) -> None:
        self.values = torch.randn(40, 24).cumsum(1)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index):
        past, future = self.values[index, :18], self.values[index, 18:]
        static = {"category": torch.tensor(index % 3), "scale": past.abs().mean()}
        return {
            "past": {"target": past, "mask": torch.ones_like(past)},
            "static": static,
            "name": "s",
        }, future


class Forecaster(L.LightningModule):
    def __init__(self, quantiles: tuple[float, ...] = (0.1, 0.5, 0.9), **optimizer_params) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.category = nn.Embedding(3, 4)
        self.trunk = nn.ModuleDict({"past": nn.Linear(18, 16), "mix": nn.Linear(20, 16)})
        self.heads = nn.ModuleList([nn.Linear(16, 6) for _ in quantiles])

    def forward(self, x):
        past, scale = x["past"], x["static"]["scale"].unsqueeze(1)
        hidden = self.trunk["past"](past["target"] * past["mask"] / scale).relu()
        hidden = self.trunk["mix"](
            torch.cat([hidden, self.category(x["static"]["category"])], 1)
        ).relu()
        return {
            "prediction": torch.stack([head(hidden) for head in self.heads], -1)
            * scale.unsqueeze(2)
        }

    def _step(self, batch, stage):
        x, y = batch
        error = y.unsqueeze(-1) - self(x)["prediction"]
        quantiles = torch.tensor(self.hparams.quantiles)
        loss = torch.maximum(quantiles * error, (quantiles - 1) * error).mean()
        self.log(f"{stage}_loss", loss, batch_size=len(y))
        return loss

    def training_step(self, batch, batch_idx):
        return {"loss": self._step(batch, "train"), "n_samples": len(batch[1])}

    def validation_step(self, batch, batch_idx):
        return self._step(batch, "val")

    def configure_optimizers(self):
        optimizer = torch.optim.RAdam(self.parameters(), lr=self.hparams.learning_rate)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"},
        }


def _data():
    return {
        "train_dataloaders": DataLoader(Series(), 8, shuffle=True, drop_last=True),
        "val_dataloaders": DataLoader(Series(), 8),
    }


TRAINING = Training(
    lambda: Forecaster(learning_rate=0.01),
    _data,
    {"max_epochs": 3, "limit_train_batches": 4},
    lambda: [EarlyStopping("val_loss", patience=5)],
)
