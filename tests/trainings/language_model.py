"""A transformer language model: targets are the tokens shifted by one, the learning rate is
scheduled by step.
"""

from __future__ import annotations

import lightning as L
import torch
from lightning.pytorch.callbacks import LearningRateMonitor
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, random_split

from tests.trainings.training import Training

_VOCABULARY, _LENGTH = 20, 12


class Tokens(Dataset):
    def __init__(self) -> None:
        self.tokens = torch.randint(0, _VOCABULARY, (400,))

    def __len__(self) -> int:
        return len(self.tokens) // _LENGTH - 1

    def __getitem__(self, index):
        start = index * _LENGTH
        return self.tokens[start : start + _LENGTH], self.tokens[start + 1 : start + _LENGTH + 1]


class LanguageModel(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(_VOCABULARY, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, _VOCABULARY)
        self.head.weight = self.embed.weight  # tied

    def forward(self, inputs, target):
        mask = nn.Transformer.generate_square_subsequent_mask(inputs.size(1))
        return F.log_softmax(
            self.head(self.encoder(self.embed(inputs), mask, is_causal=True)), dim=-1
        )

    def _loss(self, batch):
        inputs, target = batch
        return F.nll_loss(self(inputs, target).flatten(0, 1), target.flatten())

    def training_step(self, batch, batch_idx):
        loss = self._loss(batch)
        self.log("train/ppl", loss.exp(), prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", self._loss(batch), on_epoch=True, on_step=True)

    def test_step(self, batch, batch_idx):
        self.log("test/loss", self._loss(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2, weight_decay=0.1)
        warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 5))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": warmup, "interval": "step"}}


def _data():
    train, val = random_split(Tokens(), [24, 8])
    return {
        "train_dataloaders": DataLoader(train, 4, shuffle=True),
        "val_dataloaders": DataLoader(val, 4),
    }


TRAINING = Training(
    LanguageModel,
    _data,
    {"max_epochs": 2, "gradient_clip_val": 0.5},
    lambda: [LearningRateMonitor("step")],
    tests=True,
)
