"""Trainings as Lightning users write them: LightningModules with a few small batches each."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import lightning as L
import torch
from lightning.pytorch.demos import Transformer
from lightning.pytorch.plugins import MixedPrecision
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

BATCHES = 3


class Base(L.LightningModule):
    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(
            [weight for weight in self.parameters() if weight.requires_grad], 0.01
        )


class AutoEncoder(Base):
    """The model of Lightning's README: no ``forward``, the batch is reshaped in the step."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(28 * 28, 16), nn.ReLU(), nn.Linear(16, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 28 * 28))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, _ = batch
        x = x.view(x.size(0), -1)
        loss = F.mse_loss(self.decoder(self.encoder(x)), x)
        self.log("train_loss", loss)
        return loss


class Classifier(Base):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Dropout(0.2),
            nn.Flatten(),
        )
        self.head = nn.Linear(4 * 9, 5)
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        logits = self(batch["image"])
        loss = self.criterion(logits, batch["label"])
        self.log_dict(
            {"loss": loss, "accuracy": (logits.argmax(1) == batch["label"]).float().mean()}
        )
        return {"loss": loss, "logits": logits.detach()}


class LanguageModel(Base):
    """Shifted targets, as in Lightning's transformer example."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Transformer(vocab_size=20, ninp=8, nhead=2, nhid=8, nlayers=1)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        inputs, targets = batch[:, :-1], batch[:, 1:]
        return F.nll_loss(self.model(inputs, targets), targets.reshape(-1))


class Gan(Base):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(
            nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 4), nn.Tanh()
        )
        self.discriminator = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))

    def training_step(self, batch: Any, batch_idx: int) -> None:
        (real,) = batch
        first, second = self.optimizers()  # type: ignore[misc]
        noise = torch.randn(len(real), 3).type_as(real)
        self.toggle_optimizer(first)
        loss = F.binary_cross_entropy_with_logits(
            self.discriminator(self.generator(noise)), torch.ones(len(real), 1)
        )
        self.manual_backward(loss)
        self.clip_gradients(first, 1.0)
        first.step()
        first.zero_grad()
        self.untoggle_optimizer(first)
        self.toggle_optimizer(second)
        right = F.binary_cross_entropy_with_logits(
            self.discriminator(real), torch.ones(len(real), 1)
        )
        wrong = self.discriminator(self.generator(noise).detach())
        loss = (right + F.binary_cross_entropy_with_logits(wrong, torch.zeros(len(real), 1))) / 2
        self.manual_backward(loss)
        second.step()
        second.zero_grad(set_to_none=False)
        self.untoggle_optimizer(second)

    def configure_optimizers(self) -> Any:
        networks = (self.generator, self.discriminator)
        return [torch.optim.Adam(network.parameters(), 0.01) for network in networks]


class CriticWithPenalty(Base):
    """WGAN-GP: the step differentiates, and gives the optimizer a closure."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 1))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        optimizer: Any = self.optimizers()
        x = batch[0].clone().requires_grad_(True)

        def closure() -> Tensor:
            score = self.critic(x)
            (slope,) = torch.autograd.grad(score.sum(), x, create_graph=True)
            loss = score.mean() + ((slope.norm(2, dim=1) - 1) ** 2).mean()
            optimizer.zero_grad()
            self.manual_backward(loss)
            return loss.detach()

        optimizer.step(closure=closure)
        return self.critic(x).mean().detach()


class Forecaster(Base):
    """Nested dicts, as forecasting libraries pass them."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.ModuleDict(
            {"month": nn.Embedding(12, 4), "weekday": nn.Embedding(7, 4)}
        )
        self.rnn = nn.GRU(6, 8, batch_first=True)
        self.quantiles = nn.ModuleList(nn.Linear(8, 1) for _ in range(3))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = batch
        encoded = x["encoder"]
        features = [
            encoded["cont"],
            *(self.embeddings[key](encoded["cat"][key]) for key in ("month",)),
        ]
        states, _ = self.rnn(torch.cat(features, dim=-1))
        forecast = torch.stack([quantile(states[:, -1]) for quantile in self.quantiles], -1)
        error = y["target"].unsqueeze(-1) - forecast
        weights = torch.tensor([0.1, 0.5, 0.9])
        return torch.maximum(weights * error, (weights - 1) * error).mean()


class Storage:
    """Keeps tensors as PyTorch Geometric's batches do: behind ``__getattr__``, in a private
    mapping.
    """

    def __init__(self, **tensors: Tensor) -> None:
        self.__dict__["_mapping"] = tensors

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_mapping"][name]
        except KeyError:
            raise AttributeError(name) from None


class GraphConvolution(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.lin = nn.Linear(inside, outside, bias=False)
        self.bias = nn.Parameter(torch.zeros(outside))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        source, target = edge_index
        messages = self.lin(x)[source]
        return torch.zeros(len(x), messages.size(1)).index_add_(0, target, messages) + self.bias


class GraphNetwork(Base):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = GraphConvolution(4, 8), GraphConvolution(8, 2)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        hidden = self.conv1(batch.x, batch.edge_index).relu()
        return F.cross_entropy(
            self.conv2(hidden, batch.edge_index)[batch.mask], batch.y[batch.mask]
        )


@dataclass
class Item:
    image: Tensor
    mask: Tensor
    name: str = "bolt"


class AnomalyDetector(Base):
    """A dataclass as batch, a frozen backbone, a feature hook of the user, and a loss among other
    results.
    """

    def __init__(self) -> None:
        super().__init__()
        self.backbone = (
            nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()).requires_grad_(False).eval()
        )
        self.head = nn.Conv2d(4, 1, 1)
        self.features: list[Tensor] = []
        self.backbone[0].register_forward_hook(
            lambda module, args, output: self.features.append(output.mean())
        )
        self.head.register_forward_pre_hook(lambda module, args: (args[0] * 2,))

    def training_step(self, batch: Item, batch_idx: int) -> dict[str, Tensor]:
        with torch.no_grad():
            features = self.backbone(batch.image)
        scores = self.head(features).sigmoid()
        return {"loss": nn.BCELoss()(scores, batch.mask), "mean": torch.stack(self.features).mean()}


class SimClr(Base):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Flatten(), nn.Linear(49, 8), nn.ReLU())
        self.projection = nn.Linear(8, 4)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        views, _ = batch
        z = F.normalize(self.projection(self.backbone(torch.cat(views))), dim=1)
        similarity = z @ z.T / 0.5
        similarity.fill_diagonal_(-9e9)
        count = len(views[0])
        return F.cross_entropy(similarity, torch.arange(2 * count).roll(count))


class CausalBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.proj(y)
        return x + self.mlp(self.norm2(x))


class Gpt(Base):
    """Tied embeddings; blocks checkpointed where asked for."""

    def __init__(self, checkpointed: bool | None = None) -> None:
        super().__init__()
        self.checkpointed = checkpointed
        self.wte, self.wpe = nn.Embedding(20, 8), nn.Embedding(6, 8)
        self.blocks = nn.ModuleList(CausalBlock(8) for _ in range(2))
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1)))
        for block in self.blocks:
            if self.checkpointed is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.checkpointed)  # type: ignore[no-untyped-call]
        return self.head(x)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        return F.cross_entropy(self(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


class PackedLstm(Base):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, bidirectional=True)
        self.head = nn.Linear(8, 2)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        packed, labels = batch
        _, (hidden, _) = self.lstm(packed)
        return F.cross_entropy(self.head(torch.cat([hidden[0], hidden[1]], 1)), labels)


class Branching(Base):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.shared = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x = self.shared(batch[0])
        x = self.shared(x.relu())
        x = self.up(x) if x.sum() > 0 else self.down(x)
        for _ in range(int(batch[0].abs().max().item()) + 1):
            x = torch.tanh(x)
        return x.pow(2).mean()


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].neg()


class DomainAdversarial(Base):
    """A custom autograd.Function, parametrized weights and a scripted part."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.label = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)))
        self.domain = nn.utils.spectral_norm(nn.Linear(4, 2))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, labels, domains = batch
        features = self.features(x)
        loss = F.cross_entropy(self.label(features), labels)
        return loss + F.cross_entropy(self.domain(Reverse.apply(features)), domains)  # type: ignore[no-untyped-call]


class FrozenText(Base):
    """An encoder in eval mode without gradients takes PyTorch's fused kernels; another attends in
    train mode.
    """

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.text = nn.TransformerEncoder(layer, 2).requires_grad_(False)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 2)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, padding, labels = batch
        self.text.eval()
        with torch.no_grad():
            states = self.text(x, src_key_padding_mask=padding)
        attended, _ = self.attention(x, states, states)
        return F.cross_entropy(self.head(attended.mean(1)), labels)


class Momentum(Base):
    """A teacher updated in the step, as BYOL, MoCo and DINO do."""

    def __init__(self) -> None:
        super().__init__()
        self.student = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        with torch.no_grad():
            for slow, fast in zip(
                self.teacher.parameters(), self.student.parameters(), strict=True
            ):
                slow.data = slow.data * 0.9 + fast.data * 0.1
                slow.mul_(0.99).add_(fast, alpha=0.01)
        return (
            2
            - 2 * F.cosine_similarity(self.student(batch[0]), self.teacher(batch[0]), dim=1).mean()
        )


class Vae(Base):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.mean, self.log_variance = (
            nn.Linear(4, 8),
            nn.Linear(8, 2),
            nn.Linear(8, 2),
        )
        self.decoder = nn.Linear(2, 4)
        self.prior = torch.zeros(2)  # neither a parameter nor a buffer

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x = batch[0] + random.random()
        hidden = F.relu(self.encoder(x), inplace=True)
        mean, log_variance = self.mean(hidden) - self.prior, self.log_variance(hidden)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        z[:, 0] *= 0.5
        z[:, 1] = z[:, 1].detach() + 1
        kl = -0.5 * torch.sum(1 + log_variance - mean**2 - log_variance.exp())
        losses = {"reconstruction": F.mse_loss(self.decoder(z), x), "kl": kl}
        self.log_dict(losses, prog_bar=True)
        return sum(losses.values())  # type: ignore[return-value]


class Metered(Base):
    """A torchmetrics metric, a loss that is made in the step, and an unregistered network."""

    def __init__(self) -> None:
        super().__init__()
        import torchmetrics

        self.net = nn.Sequential(nn.Linear(4, 3), nn.Identity())
        self.accuracy = torchmetrics.MeanMetric()
        self.hidden = [nn.Sequential(nn.Linear(3, 3), nn.Tanh()).requires_grad_(False)]

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        logits = self.net(batch["first"]["x"]) + self.hidden[0](self.net(batch["second"]["x"]))
        loss = nn.CrossEntropyLoss(label_smoothing=0.1)(logits, batch["first"]["y"])
        self.accuracy(loss.detach())
        self.log("accuracy", self.accuracy)
        return loss


class Linear(Base):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return (self(batch[0]) - batch[0].sum(1, keepdim=True)).square().mean()


class Lbfgs(Linear):
    def configure_optimizers(self) -> Any:
        return torch.optim.LBFGS(self.parameters(), 0.1, max_iter=3)


class Decorated(Linear):
    """Steps that are wrapped, and a step that Lightning calls with a keyword-only signature."""

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return super().training_step(batch, batch_idx)


@dataclass
class Training:
    """One training.

    Attributes:
        model: makes the module.
        batch: makes a batch.
        trainer: arguments of its Trainer; a function makes one anew for each.
        is_hooked: whether the test may register hooks on all modules. They would disable fused
            kernels.
    """

    model: Callable[[], L.LightningModule]
    batch: Callable[[], Any]
    trainer: dict[str, Any] = field(default_factory=dict)
    is_hooked: bool = True

    def batches(self) -> list[Any]:
        return [self.batch() for _ in range(BATCHES)]


def _floats(*names: str) -> Callable[[], list[Tensor]]:
    return lambda: [torch.randn(6, 4) for _ in names or ("x",)]


def _tokens() -> Tensor:
    return torch.randint(0, 20, (2, 7))


def _image() -> dict[str, Tensor]:
    return {"image": torch.rand(4, 1, 8, 8), "label": torch.randint(0, 5, (4,))}


def _series() -> Any:
    categories = {"month": torch.randint(0, 12, (4, 5))}
    return {"encoder": {"cont": torch.randn(4, 5, 2), "cat": categories}}, {
        "target": torch.randn(4, 1)
    }


def _nodes() -> Storage:
    edges = torch.randint(0, 5, (2, 9))
    return Storage(
        x=torch.randn(5, 4), edge_index=edges, y=torch.randint(0, 2, (5,)), mask=torch.arange(5) > 1
    )


def _sequences() -> Any:
    packed = nn.utils.rnn.pack_sequence([torch.randn(length, 3) for length in (5, 4, 2)])
    return packed, torch.randint(0, 2, (3,))


def _labelled(classes: int, count: int) -> Callable[[], list[Tensor]]:
    return lambda: [torch.randn(6, 4), *(torch.randint(0, classes, (6,)) for _ in range(count))]


def _text() -> list[Tensor]:
    padding = torch.arange(5).expand(3, 5) >= torch.tensor([[5], [4], [2]])
    return [torch.randn(3, 5, 8), padding, torch.randint(0, 2, (3,))]


def _loaders() -> dict[str, Any]:
    return {
        name: {"x": torch.randn(6, 4), "y": torch.randint(0, 3, (6,))}
        for name in ("first", "second")
    }


def _half_precision() -> MixedPrecision:
    """What ``precision="16-mixed"`` is on a GPU; the Trainer offers it on no CPU. Each training
    needs a scaler.
    """
    return MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu"))


ZOO: dict[str, Training] = {
    "readme-autoencoder": Training(AutoEncoder, lambda: [torch.rand(4, 1, 28, 28), torch.zeros(4)]),
    "cnn-classifier": Training(Classifier, _image),
    "shifted-targets": Training(LanguageModel, _tokens),
    "gan": Training(Gan, _floats()),
    "gradient-penalty": Training(CriticWithPenalty, _floats()),
    "nested-dicts": Training(Forecaster, _series),
    "graph-batch": Training(GraphNetwork, _nodes),
    "dataclass": Training(
        AnomalyDetector, lambda: Item(torch.rand(2, 1, 6, 6), torch.rand(2, 1, 6, 6))
    ),
    "simclr": Training(
        SimClr, lambda: [[torch.rand(3, 1, 7, 7), torch.rand(3, 1, 7, 7)], torch.zeros(3)]
    ),
    "gpt-bf16": Training(Gpt, _tokens, {"precision": "bf16-mixed"}),
    "gpt-fp16": Training(Gpt, _tokens, {"plugins": _half_precision}),
    "checkpointed": Training(lambda: Gpt(checkpointed=False), _tokens),
    "checkpointed-reentrant": Training(lambda: Gpt(checkpointed=True), _tokens),
    "packed-lstm": Training(PackedLstm, _sequences),
    "branch": Training(Branching, _floats()),
    "autograd-function": Training(DomainAdversarial, _labelled(2, 2)),
    "fused-kernels": Training(FrozenText, _text, is_hooked=False),
    "momentum-teacher": Training(Momentum, _floats()),
    "vae": Training(Vae, _floats()),
    "metric-and-inline-loss": Training(Metered, _loaders),
    "accumulation": Training(Linear, _floats(), {"accumulate_grad_batches": 2}),
    "lbfgs": Training(Lbfgs, _floats()),
    "autocast-decorator": Training(Decorated, _floats()),
    "gradient-clipping": Training(
        Linear, _floats(), {"gradient_clip_val": 0.1, "precision": "64-true"}
    ),
}
