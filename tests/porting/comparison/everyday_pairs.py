"""Ordinary pairs of trainings with what is true of each, written down before any answer was looked
at.

``python -m tests.porting.comparison.everyday_pairs [--full] [NAME ...]`` trains them and prints
what was
said of each pair.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import Comparison, MindInsightLogger, SummaryCollector, compare_runs

SAMPLES, BATCH = 256, 16  # 16 steps an epoch


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(
            F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), is_causal=True)
        )


class Block(nn.Module):
    def __init__(self, width: int, rate: float) -> None:
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), Attention(width), nn.LayerNorm(width)
        self.fc, self.proj, self.drop = (
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
            nn.Dropout(rate),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.drop(self.proj(F.gelu(self.fc(self.ln_2(x)))))


class Gpt(nn.Module):
    def __init__(self, rate: float = 0.0, act: Any = None) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(50, 32), nn.Embedding(12, 32)
        self.h = nn.Sequential(Block(32, rate), Block(32, rate))
        self.ln_f, self.head = nn.LayerNorm(32), nn.Linear(32, 50, bias=False)
        for part in self.modules():
            if isinstance(part, (nn.Linear, nn.Embedding)):
                nn.init.normal_(part.weight, 0.0, 0.02)
            if isinstance(part, nn.Linear) and part.bias is not None:
                nn.init.zeros_(part.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.ln_f(self.h(self.wte(x) + self.wpe.weight))).flatten(0, 1)


class Gru(nn.Module):
    def __init__(self, rate: float = 0.0, act: Any = None) -> None:
        super().__init__()
        self.emb, self.rnn = nn.Embedding(50, 16), nn.GRU(16, 32, batch_first=True)
        self.drop, self.head = nn.Dropout(rate), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(self.rnn(self.emb(x))[0][:, -1]))


def _mlp(rate: float = 0.0, act: Any = nn.ReLU) -> nn.Module:
    return nn.Sequential(
        nn.Linear(12, 48),
        act(),
        nn.Dropout(rate),
        nn.Linear(48, 32),
        nn.LayerNorm(32),
        act(),
        nn.Linear(32, 4),
    )


def _cnn(rate: float = 0.0, act: Any = nn.ReLU) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), act(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), act(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(rate), nn.Linear(64, 4),
    )  # fmt: skip


class Residual(nn.Module):
    def __init__(self, width: int, act: Any) -> None:
        super().__init__()
        self.conv1, self.bn1 = (
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.conv2, self.bn2 = (
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.act = act()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(x + self.bn2(self.conv2(self.act(self.bn1(self.conv1(x))))))


def _resnet(rate: float = 0.0, act: Any = nn.ReLU) -> nn.Module:
    blocks = [part for _ in range(4) for part in (Residual(12, act), nn.MaxPool2d(2, 1))]
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, bias=False), nn.BatchNorm2d(12), *blocks, nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(rate), nn.Linear(12, 4),
    )  # fmt: skip


class Lstm(nn.Module):
    def __init__(self, rate: float = 0.0, act: Any = None) -> None:
        super().__init__()
        self.table, self.rnn = nn.Embedding(50, 24), nn.LSTM(24, 24, 2, batch_first=True)
        self.out = nn.Linear(24, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.rnn(self.table(x))[0].mean(1))


def _deep(rate: float = 0.0, act: Any = None) -> nn.Module:
    layers = [part for _ in range(10) for part in (nn.Linear(24, 24), nn.Tanh())]
    return nn.Sequential(nn.Linear(12, 24), nn.Tanh(), *layers, nn.Dropout(rate), nn.Linear(24, 4))


def _linear(rate: float = 0.0, act: Any = None) -> nn.Module:
    return nn.Linear(12, 4)


NETS: dict[str, Any] = {
    "mlp": _mlp, "cnn": _cnn, "gpt": Gpt, "gru": Gru, "resnet": _resnet, "lstm": Lstm,
    "deep": _deep,
                        "linear": _linear}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """How a run is trained. What is not said in a pair is the same on both sides."""

    net: str = "mlp"
    weights: int = 0  # seed
    order: int = 0  # seed of the data's order
    other_order_from: int = 10**9  # epoch
    swapped_batch: int = 0  # the step that gets another batch
    optimizer: str = "Adam"
    options: dict[str, Any] = field(default_factory=lambda: {"lr": 1e-3})
    # "norms": without decay for vectors; "head": ten times the rate for the last layer
    groups: str = ""
    batch: int = BATCH
    steps: int = 48
    freq: int = 1
    regular: str = ".*"
    tag: str = ""  # a scalar that the script logs itself, in the place of the collector's loss
    trainer: dict[str, Any] = field(default_factory=dict)
    noise: float = 0.0
    dropout: float = 0.0
    dropout_seed: int = 0
    eval_from: int = 10**9
    act: Any = nn.ReLU
    reduction: str = "mean"
    smoothing: float = 0.0
    changed_weight: str = ""  # a parameter that was not carried over
    frozen: str = ""
    rate_from: int = 10**9  # the step from which the rate is halved
    bad_step: int = 0
    resume: dict[str, Any] | None = None  # settings of the part after step 32
    drop_state: bool = False  # resumes without the optimizer's state
    prefix: bool = False
    compiled: bool = False
    workers: int = 0
    mkldnn: bool = True


class Module(L.LightningModule):
    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run_ = run
        torch.manual_seed(run.weights)
        net = NETS[run.net](run.dropout, run.act)
        for name, weight in net.named_parameters():
            if name == run.changed_weight:
                nn.init.normal_(weight, 0.0, 0.3)
            if name.startswith(run.frozen or "-"):
                weight.requires_grad_(False)
        if run.prefix:
            self.backbone = nn.ModuleDict({"inner": net})
        else:
            self.net = net
        self.compiled = torch.compile(net, backend="aot_eager") if run.compiled else None

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        run, step = self.run_, self.trainer.global_step + 1
        x, y = batch
        if step == run.swapped_batch:
            x, y = x.flip(0) * 0.5 if x.is_floating_point() else (x + 7) % 50, y.roll(3)
        if run.noise:
            x = x + run.noise * torch.randn(x.shape, generator=torch.Generator().manual_seed(step))
        torch.manual_seed(1000 * run.dropout_seed + step)
        net = self.compiled or (self.backbone["inner"] if run.prefix else self.net)
        net.train(step < run.eval_from)
        with torch.backends.mkldnn.flags(enabled=run.mkldnn):
            loss = F.cross_entropy(
                net(x), y.flatten(), reduction=run.reduction, label_smoothing=run.smoothing
            )
        if step == run.bad_step:
            loss = loss * float("nan")
        if run.tag:
            self.log(run.tag, loss, on_step=True)
        for group in self.optimizers().param_groups:
            group.setdefault("first_lr", group["lr"])
            group["lr"] = group["first_lr"] * (0.5 if step >= run.rate_from else 1.0)
        return loss

    def configure_optimizers(self) -> Any:
        run = self.run_
        named = [(name, weight) for name, weight in self.named_parameters() if weight.requires_grad]
        groups: Any = [weight for _, weight in named]
        if run.groups == "norms":
            groups = [{"params": [w for _, w in named if w.ndim > 1]},
                      {"params": [w for _, w in named if w.ndim <= 1],
                      "weight_decay": 0.0}]  # fmt: skip
        if run.groups == "head":
            groups = [
                {"params": groups[:-2]},
                {"params": groups[-2:], "lr": 10 * run.options["lr"]},
            ]
        return getattr(torch.optim, run.optimizer)(groups, **run.options)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        for state in checkpoint["optimizer_states"] if self.run_.drop_state else ():
            state["state"] = {}


class Data(L.LightningDataModule):
    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run_ = run

    def train_dataloader(self) -> DataLoader[Any]:
        run, random = self.run_, torch.Generator().manual_seed(5)
        if run.net in ("gpt", "gru", "lstm"):
            tokens = torch.randint(0, 50, (SAMPLES, 13), generator=random)
            tokens[:, 1::2] = (tokens[:, ::2][:, :6] * 3 + 1) % 50
            x, y = tokens[:, :-1], tokens[:, 1:] if run.net == "gpt" else tokens.sum(1) % 4
        else:
            shape = (SAMPLES, 12) if run.net in ("mlp", "deep", "linear") else (SAMPLES, 1, 12, 12)
            x = torch.randn(shape, generator=random)
            y = x.flatten(1)[:, :4].argmax(1)
        seed = run.order + (99 if self.trainer.current_epoch >= run.other_order_from else 0)
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(seed)).tolist()
        dtype = {"64-true": torch.float64, "bf16-true": torch.bfloat16}.get(
            run.trainer.get("precision", ""), x.dtype
        )
        x = x.to(dtype) if x.is_floating_point() else x
        return DataLoader(TensorDataset(x, y), run.batch, sampler=order, num_workers=run.workers)


def train(run: Run, directory: Path) -> Path:
    """Train and record a run."""
    parts = (
        [(run, run.steps)]
        if run.resume is None
        else [(run, 32), (replace(run, **run.resume), run.steps)]
    )
    checkpoint = None
    for part, steps in parts:
        metric = {} if run.tag else {"collect_metric": True}
        specified = {
            **metric,
            "histogram_regular": part.regular or "-",
            "collect_train_lineage": True,
        }
        collector = SummaryCollector(
            collect_freq=part.freq, collect_specified_data=specified, keep_default_action=False
        )
        options = {"accelerator": "cpu", "devices": 1, "enable_progress_bar": False,
        "enable_model_summary": False,
                   "enable_checkpointing": False, "log_every_n_steps": 1,
                   **part.trainer}  # fmt: skip
        # a part ends with an epoch
        options |= {"max_steps": -1 if run.resume is not None else steps}
        logger = MindInsightLogger(directory, name="", version="")
        fitting = L.Trainer(
            max_epochs=-1 if run.resume is None else -(-steps * run.batch // SAMPLES),
            logger=logger, callbacks=[collector],
            reload_dataloaders_every_n_epochs=1, **options,
        )  # fmt: skip
        fitting.fit(Module(part), datamodule=Data(part), ckpt_path=checkpoint)
        if part is not parts[-1][0]:
            checkpoint = directory.with_suffix(".ckpt")
            fitting.save_checkpoint(checkpoint)
    return directory


SAME, OTHER = frozenset({"same"}), frozenset({"different"})


@dataclass(frozen=True)
class Pair:
    """Two runs and what is true of them; silence (``undecided``) is always allowed.

    Attributes:
        a: how the first run is trained.
        b: in what the second differs.
        truth: in words.
        verdicts: those that are true.
        steps: those at which the runs part, as far as the records can show it.
        may: rules of hints whose statements are true of the pair.
        tensors: the first names of the first difference, if one is named.
        compare: arguments of the comparison.
        full: whether it is left out of the short form.
    """

    a: Run
    b: dict[str, Any]
    truth: str
    verdicts: frozenset[str] = OTHER
    steps: tuple[int, ...] = ()
    may: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    compare: dict[str, Any] = field(default_factory=dict)
    full: bool = False

    @property
    def first_steps(self) -> tuple[int, ...]:
        """The steps from which on they may differ; other weights differ from the first step on."""
        return self.steps or (1,)


_MLP, _CNN, _GPT, _GRU, _RESNET, _LSTM, _DEEP, _LINEAR = (Run(net=net) for net in NETS)
_SGD = {"optimizer": "SGD", "options": {"lr": 0.05}}
_MLP_SGD, _CNN_SGD = replace(_MLP, **_SGD), replace(_CNN, **_SGD)
_WEIGHTS: dict[str, Any] = {"steps": (1,)}
_UPDATE: dict[str, Any] = {"steps": (1,)}
_FORWARD: dict[str, Any] = {"steps": (1,)}
_ROUNDING = frozenset({"same", "undecided"})


def _pairs() -> Iterator[tuple[str, Pair]]:
    for name, run in (("mlp", _MLP), ("cnn", _CNN), ("gpt", _GPT), ("gru", _GRU)):
        yield f"{name}, twice", Pair(run, {}, "the same program", SAME, full=name == "gru")
        seeds = range(1, 8) if name == "gpt" else (1, 2)
        for seed in seeds:
            yield (
                f"{name}, weights {seed}",
                Pair(
                    run,
                    {"weights": seed},
                    "other first weights",
                    **_WEIGHTS,
                    full=seed > 1 and name != "gpt",
                ),
            )
        yield (
            f"{name}, order",
            Pair(run, {"order": 1}, "other batches from the start", **_FORWARD, full=name == "gru"),
        )
        yield (
            f"{name}, dropout",
            Pair(
                replace(run, dropout=0.2), {"dropout_seed": 1},
                "the same but for the random numbers of dropout",
                **_FORWARD, full=name in ("mlp", "gru"),
            ),
        )  # fmt: skip
        yield (
            f"{name}, dropout off from step 33",
            Pair(
                replace(run, dropout=0.2), {"eval_from": 33},
                "another forward pass from step 33 on", steps=(33,), full=name == "mlp",
            ),
        )  # fmt: skip
        yield (
            f"{name}, bf16-mixed",
            Pair(
                run, {"trainer": {"precision": "bf16-mixed"}},
                "only the arithmetic of the forward pass differs",
                _ROUNDING | OTHER, **_FORWARD, full=name == "gru",
            ),
        )  # fmt: skip
    yield (
        "gpt, weights, big rate",
        Pair(
            replace(_GPT, options={"lr": 0.02}), {"weights": 3}, "other first weights", **_WEIGHTS
        ),
    )
    yield (
        "gpt, weights, SGD",
        Pair(replace(_GPT, **_SGD), {"weights": 2}, "other first weights", **_WEIGHTS),
    )
    yield (
        "weights and rate",
        Pair(_MLP, {"weights": 3, "options": {"lr": 2e-3}}, "other weights, rate", **_WEIGHTS),
    )
    yield "rate 1.01", Pair(_MLP_SGD, {"options": {"lr": 0.0505}}, "the rate", **_UPDATE)
    yield "rate 2", Pair(_GPT, {"options": {"lr": 2e-3}}, "the rate", **_UPDATE)
    yield "rate 10", Pair(_CNN, {"options": {"lr": 1e-2}}, "the rate", **_UPDATE)
    yield (
        "rate 1.01, tolerance 0.01",
        Pair(
            _MLP_SGD, {"options": {"lr": 0.0505}}, "the rate; it begins at 1 % of the updates",
            SAME | OTHER, steps=tuple(range(1, 49)),
            compare={"tolerance": 0.01},
        ),
    )  # fmt: skip
    yield "adam, sgd", Pair(_GPT, _SGD, "the optimizer", **_UPDATE, may=("unchanged",))
    yield "adam, sgd of a cnn", Pair(_CNN, _SGD, "the optimizer", **_UPDATE, may=("unchanged",))
    adamw = {"optimizer": "AdamW", "options": {"lr": 1e-3, "weight_decay": 1e-2}}
    yield "adam, adamw", Pair(_GPT, adamw, "the decay of all weights", **_UPDATE)
    yield (
        "adam, adamw, noise",
        Pair(
            _CNN,
            {"optimizer": "AdamW", "options": {"lr": 1e-3, "weight_decay": 1e-4}, "noise": 1e-4},
            "noise in the input from the start, and the decay", **_FORWARD,
        ),
    )  # fmt: skip
    for name, run in (("mlp", _MLP), ("gpt", _GPT)):
        yield (
            f"{name}, accumulated",
            Pair(
                replace(run, batch=32, steps=24),
                {"batch": 16, "trainer": {"accumulate_grad_batches": 2}},
                "the same updates; each recorded loss is of another share", SAME,
            ),
        )  # fmt: skip
    yield (
        "cnn, accumulated",
        Pair(
            replace(_CNN, batch=32, steps=24), {"batch": 16,
            "trainer": {"accumulate_grad_batches": 2}},
            "batch normalization sees halves", **_FORWARD,
        ),
    )  # fmt: skip
    yield "batch 32", Pair(_MLP, {"batch": 32}, "other batches", **_FORWARD)
    yield (
        "accumulated twice as much",
        Pair(
            _MLP, {"trainer": {"accumulate_grad_batches": 2}}, "other batches in a step", **_FORWARD
        ),
    )
    yield (
        "bf16-true",
        Pair(
            _GPT, {"trainer": {"precision": "bf16-true"}}, "weights and updates in bfloat16",
            _ROUNDING | OTHER, steps=(1,), may=("unchanged",),
        ),
    )  # fmt: skip
    yield (
        "bf16-true, twice",
        Pair(replace(_MLP, trainer={"precision": "bf16-true"}), {}, "the same program", SAME),
    )
    yield "64-true", Pair(_MLP, {"trainer": {"precision": "64-true"}}, "rounding alone", _ROUNDING)
    yield (
        "64-true, gpt",
        Pair(_GPT, {"trainer": {"precision": "64-true"}}, "rounding alone", _ROUNDING),
    )
    yield "twice as long", Pair(_GPT, {"steps": 96}, "the common part is the same", SAME)
    yield "died at 3", Pair(_CNN, {"steps": 3}, "the common part is the same", SAME)
    yield (
        "losses only",
        Pair(_MLP, {"regular": ""}, "the same program; tensors are not compared", SAME),
    )
    yield (
        "other tags of the loss",
        Pair(
            replace(_MLP, tag="train/loss", regular="", steps=60), {"tag": "train_loss"},
            "the same losses under other tags", SAME,
        ),
    )  # fmt: skip
    yield "resumed", Pair(_MLP, {"resume": {}}, "the same training", SAME)
    yield (
        "resumed, other order",
        Pair(
            _MLP,
            {"resume": {"order": 1}},
            "other batches from step 33 on",
            steps=(33,),
        ),
    )
    yield "resumed without its state", Pair(
        _GPT, {"resume": {"drop_state": True}}, "the optimizer begins anew at 33", steps=(33,),

    )  # fmt: skip
    yield (
        "resumed, other rate",
        Pair(
            _GRU,
            {"resume": {"rate_from": 33}},
            "the rate from 33",
            steps=(33,),
        ),
    )
    yield (
        "from epoch 2 another order",
        Pair(
            _GPT,
            {"other_order_from": 1},
            "other batches from step 17",
            steps=(17,),
        ),
    )
    yield (
        "batch 25, fewer histograms",
        Pair(
            _GPT,
            {"swapped_batch": 25, "regular": "net.h"},
            "another batch at 25",
            steps=(25,),
        ),
    )
    yield (
        "batch 25, fewer histograms of a cnn",
        Pair(
            _CNN,
            {"swapped_batch": 25, "regular": "net.[04]"},
            "another batch at 25",
            steps=(25,),
        ),
    )
    yield (
        "batch 2, fewer histograms",
        Pair(
            _MLP,
            {"swapped_batch": 2, "regular": "net.[03]"},
            "another batch at 2",
            steps=(2,),
        ),
    )
    yield (
        "clipped",
        Pair(
            _MLP_SGD,
            {"trainer": {"gradient_clip_val": 0.1}},
            "clipped gradients",
            **_UPDATE,
        ),
    )
    yield (
        "clipped where nothing is to be clipped",
        Pair(_GRU, {"trainer": {"gradient_clip_val": 1e3}}, "the same training", SAME),
    )
    yield (
        "half the rate from 20",
        Pair(_GPT, {"rate_from": 20}, "the rate from 20", steps=(20,)),
    )
    yield (
        "half the rate from 20, every tenth step",
        Pair(
            replace(_MLP, freq=10),
            {"rate_from": 22},
            "the rate from 22",
            steps=(30,),
        ),
    )
    for name, run, weight in (
        ("gpt", _GPT, "h.1.fc.weight"),
        ("cnn", _CNN, "4.weight"),
        ("gru", _GRU, "emb.weight"),
    ):
        yield (
            f"{name}, a weight not carried",
            Pair(
                run, {"changed_weight": weight}, "one tensor began otherwise", steps=(1,),
                tensors=(f"net.{weight}",), full=name == "gru",
            ),
        )  # fmt: skip
    yield (
        "a bias that is not recorded, not carried",
        Pair(
            replace(_MLP, regular="net.[03]"), {"changed_weight": "6.bias"},
            "one tensor began otherwise",
            steps=(1,),
        ),
    )  # fmt: skip
    yield "sum", Pair(_MLP_SGD, {"reduction": "sum"}, "the loss is 16 times as large", **_FORWARD,
                      may=("loss_ratio",))  # fmt: skip
    yield "sum, adam", Pair(_GRU, {"reduction": "sum"}, "the loss is 16 times as large", **_FORWARD,
                            may=("loss_ratio",))  # fmt: skip
    yield "smoothing", Pair(_GPT, {"smoothing": 0.1}, "another loss", **_FORWARD)
    yield "activation", Pair(_CNN, {"act": nn.GELU}, "another activation", **_FORWARD)
    yield "decay of norms", Pair(
        replace(_MLP, optimizer="SGD", options={"lr": 0.05, "weight_decay": 0.01}, groups="norms"),
        {"groups": ""},
        "the decay of vectors", **_UPDATE,
    )  # fmt: skip
    yield (
        "frozen",
        Pair(
            _CNN_SGD,
            {"frozen": "0."},
            "one layer is not trained: b records none of it, so step 2 shows it first",
            steps=(2,),
        ),
    )
    yield (
        "frozen, gpt",
        Pair(_GPT, {"frozen": "h.0"}, "one block is not trained, as above", steps=(2,)),
    )
    yield "head rate", Pair(_MLP, {"groups": "head"}, "the rate of the last layer", **_UPDATE)
    yield (
        "betas",
        Pair(
            _GPT,
            {"options": {"lr": 1e-3, "betas": (0.8, 0.999)}},
            "betas",
            steps=(2,),
        ),
    )
    yield "momentum", Pair(
        _MLP_SGD, {"options": {"lr": 0.05, "momentum": 0.5}}, "momentum", steps=(2,),

    )  # fmt: skip
    yield "not finite at 12", Pair(
        _MLP_SGD, {"bad_step": 12}, "the loss of step 12 is not finite", steps=(12,),
        may=("not_finite",),
    )  # fmt: skip
    yield "another name of the net", Pair(_CNN, {"prefix": True}, "the same training", SAME)
    yield "compiled", Pair(_MLP, {"compiled": True}, "the same training", _ROUNDING, full=True)
    yield "two workers", Pair(_MLP, {"workers": 2}, "the same training", SAME, full=True)
    yield "without mkldnn", Pair(_CNN, {"mkldnn": False}, "rounding alone", _ROUNDING)
    yield "eps", Pair(
        _GRU, {"options": {"lr": 1e-3, "eps": 1e-5}}, "Adam's epsilon", steps=(1,),

    )  # fmt: skip
    yield from _other_nets()


def _other_nets() -> Iterator[tuple[str, Pair]]:
    """Pairs of nets that no rule was looked at with."""
    resnet = replace(_RESNET, **_SGD)
    yield "resnet, without mkldnn", Pair(resnet, {"mkldnn": False}, "rounding alone", _ROUNDING)
    yield (
        "resnet, without mkldnn, adam",
        Pair(_RESNET, {"mkldnn": False}, "rounding alone", _ROUNDING),
    )
    for name, run in (
        ("resnet", resnet),
        ("lstm", _LSTM),
        ("deep", replace(_DEEP, **_SGD)),
        ("linear", _LINEAR),
    ):
        yield f"{name}, other weights", Pair(run, {"weights": 4}, "other first weights", **_WEIGHTS)
        yield (
            f"{name}, other batches",
            Pair(run, {"order": 2}, "other batches from the start", **_FORWARD),
        )
    yield "lstm, rate 1.001", Pair(
        replace(_LSTM, **_SGD), {"options": {"lr": 0.05005}}, "the rate", SAME | OTHER,
        steps=tuple(range(1, 49)),
    )  # fmt: skip
    yield "deep, dropout in one", Pair(_DEEP, {"dropout": 0.1}, "dropout in b", **_FORWARD)
    yield (
        "gru, batch 10, every fifth step",
        Pair(
            replace(_GRU, freq=5),
            {"swapped_batch": 10},
            "another batch at 10",
            steps=(10,),
        ),
    )
    yield (
        "resnet, evaluation from 20",
        Pair(
            resnet,
            {"eval_from": 20},
            "another forward pass from step 20 on",
            steps=(20,),
        ),
    )
    yield (
        "lstm, frozen table, longer",
        Pair(
            _LSTM,
            {"frozen": "table", "steps": 60},
            "the table is not trained, as above",
            steps=(2,),
        ),
    )
    yield "linear, amsgrad", Pair(
        _LINEAR, {"options": {"lr": 1e-3, "amsgrad": True}}, "the optimizer", SAME | OTHER,
        steps=tuple(range(2, 49)),
    )  # fmt: skip
    yield "mlp, other weights, accumulated", Pair(
        replace(_MLP, batch=32, steps=24), {"weights": 5, "batch": 16,
        "trainer": {"accumulate_grad_batches": 2}},
        "other first weights", **_WEIGHTS,
    )  # fmt: skip
    yield "gpt, half the rate", Pair(_GPT, {"rate_from": 1}, "the rate", **_UPDATE)
    yield "cnn, nesterov", Pair(
        replace(_CNN_SGD, options={"lr": 0.05, "momentum": 0.9}),
        {"options": {"lr": 0.05, "momentum": 0.9, "nesterov": True}}, "the optimizer", **_UPDATE,
    )  # fmt: skip
    yield "deep, bf16-mixed", Pair(
        _DEEP, {"trainer": {"precision": "bf16-mixed"}}, "only the arithmetic of the forward pass",
        _ROUNDING | OTHER,
        **_FORWARD,
    )  # fmt: skip
    yield "resnet, accumulated", Pair(
        replace(resnet, batch=32, steps=24), {"batch": 16,
        "trainer": {"accumulate_grad_batches": 2}},
        "batch normalization sees halves", **_FORWARD,
    )  # fmt: skip
    yield "lstm, clipped and longer", Pair(
        replace(_LSTM, **_SGD), {"trainer": {"gradient_clip_val": 0.02}, "steps": 70},
        "clipped gradients", **_UPDATE,

    )  # fmt: skip


def _later_pairs() -> Iterator[tuple[str, Pair]]:
    """Forty pairs that were written before any of their answers was seen."""
    adam, first, silent_or_other = {"lr": 1e-3}, {"steps": (1,)}, _ROUNDING | OTHER
    nets = {"mlp": _MLP, "cnn": _CNN, "gpt": _GPT, "gru": _GRU, "resnet": _RESNET}
    nets |= {"lstm": _LSTM, "deep": _DEEP, "linear": _LINEAR}
    for name in ("deep", "linear", "lstm", "resnet"):
        yield f"new: {name}, twice", Pair(nets[name], {}, "the same program", SAME)
    for name in ("deep", "lstm", "linear"):
        truth = "rounding alone"
        yield (
            f"new: {name}, 64-true",
            Pair(nets[name], {"trainer": {"precision": "64-true"}}, truth, _ROUNDING),
        )
    for name in ("mlp", "gru", "gpt"):
        truth = "three times the rate"
        yield f"new: {name}, rate 3", Pair(nets[name], {"options": {"lr": 3e-3}}, truth, **first)
    for name in ("deep", "resnet", "lstm"):
        truth = "a tenth of the rate"
        yield f"new: {name}, rate 0.1", Pair(nets[name], {"options": {"lr": 1e-4}}, truth, **first)
    for name in ("mlp", "gpt", "linear"):
        truth = "the rate is halved from step 30 on"
        yield f"new: {name}, rate from 30", Pair(nets[name], {"rate_from": 30}, truth, steps=(30,))
    for name in ("mlp", "cnn", "lstm"):
        truth = "another batch at step 40"
        yield f"new: {name}, batch 40", Pair(nets[name], {"swapped_batch": 40}, truth, steps=(40,))
    for name in ("gru", "deep"):
        truth = "other batches from step 33 on"
        yield (
            f"new: {name}, order from 33",
            Pair(nets[name], {"other_order_from": 2}, truth, steps=(33,)),
        )
    sparse = replace(_GPT, freq=7)
    yield "new: gpt, every seventh step, twice", Pair(sparse, {}, "the same program", SAME)
    yield (
        "new: gpt, every seventh step, batch 20",
        Pair(sparse, {"swapped_batch": 20}, "another batch at 20", steps=(21,)),
    )
    yield (
        "new: mlp, every fifth step, order",
        Pair(replace(_MLP, freq=5), {"order": 3}, "other batches from the start", steps=(1, 5)),
    )
    for name in ("mlp", "deep"):
        yield (
            f"new: {name}, losses only, weights",
            Pair(replace(nets[name], regular=""), {"weights": 6}, "other first weights", **first),
        )
    yield (
        "new: cnn, losses only, order",
        Pair(replace(_CNN, regular=""), {"order": 4}, "other batches from the start", **first),
    )
    yield (
        "new: gru, biases only",
        Pair(replace(_GRU, regular="bias"), {"options": {"lr": 2e-3}}, "the rate", steps=(1, 2)),
    )
    yield "new: lstm, longer", Pair(_LSTM, {"steps": 60}, "the common part is the same", SAME)
    yield "new: resnet, died at 5", Pair(_RESNET, {"steps": 5}, "the common part is the same", SAME)
    yield (
        "new: mlp, betas",
        Pair(_MLP, {"options": {"lr": 1e-3, "betas": (0.9, 0.99)}}, "betas", steps=(2,)),
    )
    yield (
        "new: deep, rmsprop",
        Pair(
            _DEEP,
            {"optimizer": "RMSprop", "options": adam},
            "the optimizer",
            may=("unchanged",),
            **first,
        ),
    )
    yield "new: linear, sgd", Pair(_LINEAR, _SGD, "the optimizer", may=("unchanged",), **first)
    yield "new: cnn, smoothing", Pair(_CNN, {"smoothing": 0.05}, "another loss", **first)
    yield "new: gru, dropout 0.5", Pair(_GRU, {"dropout": 0.5}, "dropout in b", **first)
    yield "new: mlp, activation", Pair(_MLP, {"act": nn.SiLU}, "another activation", **first)
    yield "new: resnet, activation", Pair(_RESNET, {"act": nn.GELU}, "another activation", **first)
    yield (
        "new: lstm, noise 1e-3",
        Pair(
            replace(_LSTM, net="deep"),
            {"noise": 1e-3},
            "noise in the input",
            silent_or_other,
            **first,
        ),
    )
    yield (
        "new: gpt, clipped",
        Pair(
            replace(_GPT, **_SGD),
            {"trainer": {"gradient_clip_val": 0.05}},
            "clipped gradients",
            **first,
        ),
    )
    yield (
        "new: deep, a bias not carried",
        Pair(_DEEP, {"changed_weight": "0.bias"}, "one bias began differently", **first),
    )
    yield "new: linear, prefix", Pair(_LINEAR, {"prefix": True}, "the same training", SAME)
    yield (
        "new: mlp, not finite at 30",
        Pair(
            _MLP,
            {"bad_step": 30},
            "the loss of step 30 is not finite",
            steps=(30,),
            may=("not_finite",),
        ),
    )


PAIRS = dict(_pairs()) | dict(_later_pairs())


def untrue(pair: Pair, comparison: Comparison) -> list[str]:
    """Return what a comparison says of a pair that is not so; no pair has output statistics."""
    wrong, first = [], comparison.first_difference
    if comparison.verdict not in pair.verdicts | {"undecided"}:
        wrong.append(f"verdict {comparison.verdict}")
    if first is not None:
        if first.step not in pair.first_steps:
            wrong.append(f"step {first.step}")
        if first.stage is not None:
            wrong.append(f"stage {first.stage}")
        named = tuple(tensor.baseline for tensor in first.tensors[: len(pair.tensors)])
        if named != pair.tensors:
            wrong.append(f"tensors {named}")
    for note in comparison.notes:
        if note.rule not in pair.may:
            wrong.append(f"note {note.rule}")
    return wrong


def is_silent(pair: Pair, comparison: Comparison) -> bool:
    """Tell whether a comparison does not decide."""
    return comparison.verdict == "undecided"


def compared(pair: Pair, directory: Path, trained: dict[str, Path] | None = None) -> Comparison:
    """Train a pair, what was trained before excepted, and compare it."""
    trained = {} if trained is None else trained
    paths = []
    for run in (pair.a, replace(pair.a, **pair.b)):
        key = f"{run}"
        if not pair.b and paths:
            key += " again"
        if key not in trained:
            trained[key] = train(run, directory / f"run{len(trained)}")
        paths.append(trained[key])
    return compare_runs(*paths, **pair.compare)


def main(arguments: list[str], scratch: str) -> int:
    """Print what is said of the pairs; the number of pairs of which an untrue word is said."""
    names = [name for name in arguments if not name.startswith("-")]
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    failures = silent = count = 0
    directory = Path(
        next((a.removeprefix("--in=") for a in arguments if a.startswith("--in=")), scratch)
    )
    kept = directory / "trained.txt"
    trained = (
        dict(line.split("\t") for line in kept.read_text(encoding="utf-8").splitlines())
        if kept.exists()
        else {}
    )
    trained = {key: Path(path) for key, path in trained.items()}
    for name, pair in PAIRS.items():
        if (names and not any(part in name for part in names)) or (
            pair.full and "--full" not in arguments
        ):
            continue
        comparison = compared(pair, directory, trained)
        kept.write_text(
            "".join(f"{key}\t{path}\n" for key, path in trained.items()), encoding="utf-8"
        )
        wrong = untrue(pair, comparison)
        count, failures, silent = (
            count + 1,
            failures + bool(wrong),
            silent + is_silent(pair, comparison),
        )
        first = comparison.first_difference
        where = first.step if first else comparison.doubt
        rules = [note.rule for note in comparison.notes]
        print(
            f"{'WRONG ' + '; '.join(wrong) if wrong else 'ok'} | {name} | "
            f"{comparison.verdict}, {where}, {rules}"
        )
        if wrong or "--words" in arguments:
            print(f"      true: {pair.truth}\n      said: {comparison.sentence}")
            for note in comparison.notes:
                print(f"      - {note.text}")
    print(f"{count} pairs, {failures} with an untrue word, {silent} silent")
    return failures


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch_folder:
        sys.exit(bool(main(sys.argv[1:], scratch_folder)))
