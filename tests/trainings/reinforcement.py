"""Deep Q-learning: an endless replay buffer, a target network, rewards logged by name, no
validation.
"""

from __future__ import annotations

import copy

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset

from tests.trainings.training import Training


class Replay(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.randn(4), torch.randint(0, 2, ()), torch.randn(()), torch.randn(4)


class DQN(L.LightningModule):
    def __init__(self, gamma: float = 0.99, sync_rate: int = 5) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.target_net = copy.deepcopy(self.net)
        self.episode_reward = 0.0

    def training_step(self, batch, batch_idx):
        states, actions, rewards, next_states = batch
        values = self.net(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            expected = rewards + self.hparams.gamma * self.target_net(next_states).max(1).values
        loss = F.smooth_l1_loss(values, expected)
        self.episode_reward += float(rewards.sum())
        if self.global_step % self.hparams.sync_rate == 0:
            self.target_net.load_state_dict(self.net.state_dict())
        self.log_dict({"reward": self.episode_reward, "train_loss": loss})
        return loss

    def configure_optimizers(self):
        return torch.optim.RMSprop(self.net.parameters(), lr=1e-3)


def _data():
    return {"train_dataloaders": DataLoader(Replay(), batch_size=8)}


TRAINING = Training(DQN, _data, {"max_steps": 25, "log_every_n_steps": 3})
