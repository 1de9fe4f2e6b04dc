"""The case, trained with PyTorch Lightning and recorded by our collector."""

from __future__ import annotations

from typing import Any

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import SummaryCollector, tensor_summary
from tests.golden.collector import collector_case as case


class Net(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, bias=False)
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(4 * 6 * 6, 10)
        self.loss = nn.CrossEntropyLoss()
        self.load_state_dict({name: torch.tensor(value) for name, value in case.weights().items()})

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores = self.fc(self.flatten(self.relu(self.conv1(images))))
        tensor_summary("scores", scores)
        return scores

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        images, labels = batch
        return self.loss(self(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), case.LEARNING_RATE, case.MOMENTUM)


def train(run_dir: str, **options: Any) -> None:
    images, labels = case.data()
    dataset = TensorDataset(torch.tensor(images), torch.tensor(labels, dtype=torch.long))
    collector = SummaryCollector(run_dir, **case.OPTIONS | options)
    trainer = L.Trainer(
        max_epochs=case.EPOCHS,
        accelerator="cpu",
        logger=False,
        callbacks=[collector],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Net(), DataLoader(dataset, case.BATCH_SIZE))
