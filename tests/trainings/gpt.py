"""A GPT-like model in bf16-mixed precision with checkpointed blocks and parameter groups of its own."""

from __future__ import annotations

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, IterableDataset

from tests.trainings.training import Training


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.c_attn(self.ln_1(x)).split(x.size(-1), dim=-1)
        x = x + self.c_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.mlp(self.ln_2(x))


class GPT(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(30, 16), nn.Embedding(8, 16)
        self.blocks = nn.ModuleList([Block(16) for _ in range(2)])
        self.ln_f, self.lm_head = nn.LayerNorm(16), nn.Linear(16, 30, bias=False)

    def training_step(self, batch, batch_idx):
        x, y = batch[:, :-1], batch[:, 1:]
        h = self.wte(x) + self.wpe(torch.arange(x.size(1)))
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=False)
        loss = F.cross_entropy(self.lm_head(self.ln_f(h)).flatten(0, 1), y.flatten())
        self.log("train/loss", loss)
        return loss

    def configure_optimizers(self):
        decayed = [p for p in self.parameters() if p.dim() >= 2]
        others = [p for p in self.parameters() if p.dim() < 2]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))


class Stream(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.randint(0, 30, (9,))


def _data():
    return {"train_dataloaders": DataLoader(Stream(), batch_size=4)}


TRAINING = Training(GPT, _data, {"max_steps": 12, "precision": "bf16-mixed"})
