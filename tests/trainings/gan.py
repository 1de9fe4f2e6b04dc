"""A GAN with two optimizers under manual optimization, a toggled optimizer, and images logged by the script."""

from __future__ import annotations

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tests.trainings.training import Training


class GAN(L.LightningModule):
    def __init__(self, latent_dim: int = 4, lr: float = 2e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(latent_dim, 16), nn.LeakyReLU(0.2), nn.Linear(16, 36), nn.Tanh())
        self.discriminator = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, z):
        return self.generator(z).view(-1, 1, 6, 6)

    def training_step(self, batch, batch_idx):
        images, _ = batch
        generator_step, discriminator_step = self.optimizers()
        z = torch.randn(images.shape[0], self.hparams.latent_dim)
        real, fake = torch.ones(images.size(0), 1), torch.zeros(images.size(0), 1)

        self.toggle_optimizer(generator_step)
        g_loss = F.binary_cross_entropy_with_logits(self.discriminator(self(z)), real)
        self.manual_backward(g_loss)
        generator_step.step()
        generator_step.zero_grad()
        self.untoggle_optimizer(generator_step)

        self.toggle_optimizer(discriminator_step)
        real_loss = F.binary_cross_entropy_with_logits(self.discriminator(images), real)
        fake_loss = F.binary_cross_entropy_with_logits(self.discriminator(self(z).detach()), fake)
        d_loss = (real_loss + fake_loss) / 2
        self.manual_backward(d_loss)
        discriminator_step.step()
        discriminator_step.zero_grad()
        self.untoggle_optimizer(discriminator_step)
        self.log_dict({"g_loss": g_loss, "d_loss": d_loss}, prog_bar=True)

    def configure_optimizers(self):
        return [
            torch.optim.Adam(self.generator.parameters(), lr=self.hparams.lr, betas=(0.5, 0.999)),
            torch.optim.Adam(self.discriminator.parameters(), lr=self.hparams.lr, betas=(0.5, 0.999)),
        ], []


def _data():
    images = TensorDataset(torch.rand(32, 1, 6, 6) * 2 - 1, torch.zeros(32))
    return {"train_dataloaders": DataLoader(images, batch_size=8)}


TRAINING = Training(GAN, _data, {"max_epochs": 2}, collector={"collect_gradients": ".*weight"})
