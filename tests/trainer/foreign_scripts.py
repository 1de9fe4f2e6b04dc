"""Trainings as other libraries' users write them, each a few steps on the CPU from a fixed seed.

Each function takes arguments of the Trainer and returns the trained LightningModule. Beside it
stands what the script really does: how many samples a batch has, what computes its loss, and what
of that can be known from outside.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

_ROWS = 22  # not a multiple of the batch size
_BATCH = 4


@dataclass(frozen=True)
class Script:
    """A training, and what is true of it.

    Attributes:
        fit: trains, and returns the module.
        samples: number of samples in a batch.
        loss_function: what the lineage should say of the loss.
        has_sizes: whether the loader states how many samples a batch has.
    """

    fit: Callable[[dict[str, Any]], Any]
    samples: Callable[[Any], int]
    loss_function: str | None
    has_sizes: bool = True


class Plain(L.LightningModule):
    """A network that gives its loss from a batch."""

    def __init__(self, network: nn.Module, compute: Callable[[Any, Any], torch.Tensor]) -> None:
        super().__init__()
        self.network, self.compute = network, compute

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = self.compute(self.network, batch)
        self.log("train/loss", loss, batch_size=_BATCH)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(
            [weight for weight in self.parameters() if weight.requires_grad], lr=0.01
        )


def _fit(module: Plain, loader: Any, trainer: dict[str, Any]) -> Plain:
    L.Trainer(max_epochs=2, **trainer).fit(module, loader)
    return module


def scvi(trainer: dict[str, Any]) -> Any:
    library = importlib.import_module("scvi")
    counts = np.random.default_rng(1).poisson(3, (_ROWS, 20)).astype(np.float32)
    data = importlib.import_module("anndata").AnnData(counts)
    library.settings.seed = 1
    library.model.SCVI.setup_anndata(data)
    model = library.model.SCVI(data, n_hidden=8, n_latent=2)
    model.train(max_epochs=2, batch_size=_BATCH, train_size=1.0, **trainer)
    return model.module


def chemprop(trainer: dict[str, Any]) -> Any:
    data, models, layers = (
        importlib.import_module(f"chemprop.{name}") for name in ("data", "models", "nn")
    )
    points = [
        data.MoleculeDatapoint.from_smi("C" * (1 + row % 7) + "O", [float(row % 7)])
        for row in range(_ROWS)
    ]
    torch.manual_seed(1)
    module = models.MPNN(
        layers.BondMessagePassing(d_h=8),
        layers.MeanAggregation(),
        layers.RegressionFFN(input_dim=8),
    )
    loader = data.build_dataloader(data.MoleculeDataset(points), batch_size=_BATCH, shuffle=False)
    L.Trainer(max_epochs=2, **trainer).fit(module, loader)
    return module


def gluonts(trainer: dict[str, Any]) -> Any:
    torch_models = importlib.import_module("gluonts.torch")
    dataset = importlib.import_module("gluonts.dataset.common").ListDataset(
        [{"start": "2024-01-01", "target": np.sin(np.arange(80) / 5)}], freq="D"
    )
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 - what the library draws its samples from
    kept: list[Any] = []

    class Keep(L.Callback):
        def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
            kept.append(pl_module)

    # it has its own
    trainer = {name: value for name, value in trainer.items() if name != "enable_checkpointing"}
    with tempfile.TemporaryDirectory() as folder:
        options = {
            **trainer,
            "default_root_dir": folder,
            "max_epochs": 2,
            "callbacks": [*trainer.get("callbacks", []), Keep()],
        }
        torch_models.SimpleFeedForwardEstimator(
            prediction_length=4,
            context_length=8,
            hidden_dimensions=[6],
            batch_size=_BATCH,
            num_batches_per_epoch=3,
            trainer_kwargs=options,
        ).train(dataset)
    return kept[0]


def peft(trainer: dict[str, Any]) -> Any:
    transformers, library = importlib.import_module("transformers"), importlib.import_module("peft")
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=30,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        num_labels=3,
    )
    network = library.get_peft_model(
        transformers.BertForSequenceClassification(config),
        library.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"]),
    )
    tokens, labels = torch.randint(0, 30, (_ROWS, 6)), torch.arange(_ROWS) % 3
    rows = [{"input_ids": tokens[row], "labels": labels[row]} for row in range(_ROWS)]
    return _fit(
        Plain(network, lambda model, batch: model(**batch).loss), DataLoader(rows, _BATCH), trainer
    )


def metric_learning(trainer: dict[str, Any]) -> Any:
    losses, samplers = (
        importlib.import_module(f"pytorch_metric_learning.{name}")
        for name in ("losses", "samplers")
    )
    torch.manual_seed(1)
    labels = torch.arange(24) % 3
    sampler = samplers.MPerClassSampler(labels, m=2, batch_size=6, length_before_new_iter=24)
    compute = losses.ContrastiveLoss()
    module = Plain(nn.Linear(5, 3), lambda network, batch: compute(network(batch[0]), batch[1]))
    return _fit(
        module, DataLoader(TensorDataset(torch.randn(24, 5), labels), 6, sampler=sampler), trainer
    )


def monai(trainer: dict[str, Any]) -> Any:
    data, losses, nets = (
        importlib.import_module(f"monai.{name}") for name in ("data", "losses", "networks.nets")
    )
    generator = np.random.default_rng(1)
    images = generator.random((_ROWS, 1, 16, 16), np.float32)
    rows = [{"image": image, "label": (image > 0.5).astype(np.float32)} for image in images]
    torch.manual_seed(1)
    network = nets.UNet(
        spatial_dims=2, in_channels=1, out_channels=1, channels=(4, 8), strides=(2,)
    )
    module = Plain(
        network, lambda model, batch: module.criterion(model(batch["image"]), batch["label"])
    )
    module.criterion = losses.DiceLoss(sigmoid=True)
    return _fit(module, data.DataLoader(data.Dataset(rows), batch_size=_BATCH), trainer)


def kornia(trainer: dict[str, Any]) -> Any:
    library = importlib.import_module("kornia")
    torch.manual_seed(1)

    class Augmented(Plain):
        def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
            return [self.augment(batch[0]), batch[1]]

    network = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )
    criterion = library.losses.FocalLoss(alpha=0.5, reduction="mean")
    module = Augmented(network, lambda model, batch: criterion(model(batch[0]), batch[1]))
    module.augment = library.augmentation.RandomHorizontalFlip(p=0.5)
    loader = DataLoader(
        TensorDataset(torch.rand(_ROWS, 3, 8, 8), torch.arange(_ROWS) % 3), _BATCH, drop_last=True
    )
    return _fit(module, loader, trainer)


def x_transformers(trainer: dict[str, Any]) -> Any:
    library = importlib.import_module("x_transformers")
    torch.manual_seed(1)
    network = library.AutoregressiveWrapper(
        library.TransformerWrapper(
            num_tokens=20,
            max_seq_len=9,
            attn_layers=library.Decoder(dim=8, depth=1, heads=2, attn_dim_head=4),
        )
    )

    class Texts(Dataset[torch.Tensor]):
        texts = torch.randint(0, 20, (_ROWS, 9))

        def __len__(self) -> int:
            return _ROWS

        def __getitem__(self, index: int) -> torch.Tensor:
            return self.texts[index]

    return _fit(
        Plain(network, lambda model, batch: model(batch)), DataLoader(Texts(), _BATCH), trainer
    )


SCRIPTS = {
    "scvi": Script(scvi, lambda batch: len(batch["X"]), None),
    "chemprop": Script(chemprop, lambda batch: len(batch.Y), "MSE"),
    "gluonts": Script(gluonts, lambda batch: len(batch["future_target"]), None, has_sizes=False),
    "peft": Script(peft, lambda batch: len(batch["labels"]), "CrossEntropyLoss"),
    "pytorch_metric_learning": Script(
        metric_learning, lambda batch: len(batch[1]), "ContrastiveLoss"
    ),
    "monai": Script(monai, lambda batch: len(batch["label"]), "DiceLoss"),
    "kornia": Script(kornia, lambda batch: len(batch[1]), "FocalLoss"),
    # it has a cross entropy of its own
    "x_transformers": Script(x_transformers, lambda batch: len(batch), None),
}
