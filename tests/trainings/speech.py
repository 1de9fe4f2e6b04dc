"""An LSTM on packed sequences of different lengths, trained with CTC loss."""

from __future__ import annotations

import lightning as L
import torch
from torch import nn
from torch.nn.utils import rnn
from torch.utils.data import DataLoader

from tests.trainings.training import Training


class Recognizer(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.output = nn.Linear(16, 5)
        self.ctc = nn.CTCLoss(zero_infinity=True)

    def forward(self, packed):
        hidden, lengths = rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.output(hidden).log_softmax(-1), lengths

    def training_step(self, batch, batch_idx):
        packed, targets, target_lengths = batch
        scores, lengths = self(packed)
        loss = self.ctc(scores.transpose(0, 1), targets, lengths, target_lengths)
        self.log("ctc", loss, batch_size=len(lengths))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 3e-3)


def _collate(lengths: list[int]):
    sounds = [torch.randn(length, 6) for length in lengths]
    targets = torch.randint(1, 5, (len(lengths), 3))
    return rnn.pack_sequence(sounds, enforce_sorted=False), targets, torch.full((len(lengths),), 3)


def _data():
    return {"train_dataloaders": DataLoader([9, 12, 7, 14, 10, 8, 11, 13], batch_size=4, collate_fn=_collate)}


TRAINING = Training(Recognizer, _data, {"max_epochs": 3})
