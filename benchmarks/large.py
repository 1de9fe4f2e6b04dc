"""What recording costs large models: random weights, real sizes, each measurement in a process of
its own.

``python benchmarks/large.py [--full] [--only WORD]``. Each model trains 12 steps with and without
the pair, which take turns of one step; then once more each way alone, for the peak of resident
memory of each step; then some make a landscape of three checkpoints. ``--full`` adds GPT-2 medium,
which needs 20 GB.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, os.path.dirname(__file__))

import lightning.pytorch as pl
import paired
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import (
    MindInsightLogger,
    SummaryCollector,
    SummaryLandscape,
    SummaryReader,
)
from mindsummary_lightning.landscape.checkpoint_names import moving_names
from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointWriter
from mindsummary_lightning.landscape.directions import random_directions, scaled
from mindsummary_lightning.values.landscape_settings import LandscapeSettings

STEPS, EVERY, GRID = 12, 10, 5
_KEEP_FREED_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
}


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor, memory: torch.Tensor, is_causal: bool) -> torch.Tensor:
        parts = (self.query(x), self.key(memory), self.value(memory))
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        return self.out(
            F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
            .transpose(1, 2)
            .flatten(2)
        )


class Dense(nn.Sequential):
    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Experts(nn.Module):
    """Eight, two of which see each token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.router, self.experts = (
            nn.Linear(width, 8),
            nn.ModuleList(Dense(width) for _ in range(8)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares, chosen = self.router(x).softmax(-1).topk(2)
        answer = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            share = (shares * (chosen == number)).sum(-1)
            picked = share > 0
            answer[picked] = answer[picked] + share[picked].unsqueeze(-1) * expert(x[picked])
        return answer


class LowRank(nn.Module):
    """A frozen layer and what is learned beside it."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = (
            nn.Linear(layer.in_features, 8, bias=False),
            nn.Linear(8, layer.out_features, bias=False),
        )
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.up(self.down(x))


class Block(nn.Module):
    def __init__(
        self,
        width: int,
        heads: int,
        feed: Callable[[int], nn.Module] = Dense,
        crosses: bool = False,
    ) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 + crosses))
        self.attention, self.feed = Attention(width, heads), feed(width)
        self.cross = Attention(width, heads) if crosses else None

    def forward(self, x: torch.Tensor, is_causal: bool, memory: Any = None) -> torch.Tensor:
        y = self.norms[0](x)
        x = x + self.attention(y, y, is_causal)
        if self.cross is not None:
            x = x + self.cross(self.norms[2](x), memory, False)
        return x + self.feed(self.norms[1](x))


class Model(pl.LightningModule):
    """What all have: a cross entropy of ``forward``, and AdamW."""

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        return F.cross_entropy(self(batch[0]).flatten(0, -2), batch[1].flatten())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            [each for each in self.parameters() if each.requires_grad], lr=1e-4
        )


class Gpt(Model):
    """GPT-2's sizes, the embedding tied to the head."""

    def __init__(
        self,
        layers: int = 12,
        width: int = 768,
        feed: Callable[[int], nn.Module] = Dense,
        is_checkpointed: bool = False,
    ) -> None:
        super().__init__()
        self.tokens, self.places, self.is_checkpointed = (
            nn.Embedding(50257, width),
            nn.Embedding(1024, width),
            is_checkpointed,
        )
        self.blocks = nn.ModuleList(Block(width, width // 64, feed) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 50257, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.tokens(x) + self.places.weight[: x.shape[1]]
        for block in self.blocks:
            x = (
                checkpoint(block, x, True, use_reentrant=False)
                if self.is_checkpointed
                else block(x, True)
            )
        return self.head(self.norm(x))


class T5(Model):
    """T5-small's sizes: 6 layers of 512 on either side, one embedding in three places."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Embedding(32128, 512)
        self.encoder, self.decoder = (
            nn.ModuleDict({"embed": self.shared}),
            nn.ModuleDict({"embed": self.shared}),
        )
        self.encoder["blocks"] = nn.ModuleList(Block(512, 8) for _ in range(6))
        self.decoder["blocks"] = nn.ModuleList(Block(512, 8, crosses=True) for _ in range(6))
        self.head = nn.Linear(512, 32128, bias=False)
        self.head.weight = self.shared.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        memory, y = self.encoder["embed"](x), self.decoder["embed"](x)
        for block in self.encoder["blocks"]:
            memory = block(memory, False)
        for block in self.decoder["blocks"]:
            y = block(y, True, memory)
        return self.head(y)


class ViT(Model):
    """ViT-B/16."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.place = (
            nn.Conv2d(3, 768, 16, 16),
            nn.Parameter(torch.randn(196, 768) * 0.02),
        )
        self.blocks, self.head = (
            nn.ModuleList(Block(768, 12) for _ in range(12)),
            nn.Linear(768, 1000),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2) + self.place
        for block in self.blocks:
            y = block(y, False)
        return self.head(y.mean(1))


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        shapes = (inputs, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1)
        parts = [
            part
            for i, o, size, step in shapes
            for part in (
                nn.Conv2d(i, o, size, step, size // 2, bias=False),
                nn.BatchNorm2d(o),
                nn.ReLU(),
            )
        ]
        self.body = nn.Sequential(*parts[:-1])
        self.skip = (
            nn.Conv2d(inputs, 4 * width, 1, stride)
            if stride > 1 or inputs != 4 * width
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.skip(x))


class ResNet152(Model):
    def __init__(self) -> None:
        super().__init__()
        parts: list[nn.Module] = [
            nn.Conv2d(3, 64, 7, 2, 3),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        ]
        inputs = 64
        for width, depth in ((64, 3), (128, 8), (256, 36), (512, 3)):
            for number in range(depth):
                parts.append(Bottleneck(inputs, width, 2 if number == 0 and width > 64 else 1))
                inputs = 4 * width
        self.body = nn.Sequential(
            *parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def low_rank() -> Gpt:
    net = Gpt().requires_grad_(False)
    for block in net.blocks:
        block.attention.query, block.attention.value = (
            LowRank(block.attention.query),
            LowRank(block.attention.value),
        )
    return net


def text(length: int, words: int = 32128) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(words, (4 * STEPS, length + 1))
    return tokens[:, :-1], tokens[:, 1:]


def pictures(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(4 * STEPS, 3, size, size), torch.randint(1000, (4 * STEPS,))


class Case(NamedTuple):
    """A model, its samples, the size of a batch, and options of the Trainer."""

    make: Callable[[], Model]
    data: Callable[[], tuple[torch.Tensor, torch.Tensor]]
    batch: int = 1
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    has_landscape: bool = False


CASES = {
    "GPT-2 small": Case(Gpt, lambda: text(64), has_landscape=True),
    "GPT-2 medium": Case(lambda: Gpt(24, 1024), lambda: text(64)),
    "T5-small": Case(T5, lambda: text(64), has_landscape=True),
    "ResNet-152, images of 64": Case(ResNet152, lambda: pictures(64), 4, has_landscape=True),
    "ViT-B/16": Case(ViT, lambda: pictures(224), has_landscape=True),
    "mixture of 8 experts, 4 layers of 512": Case(lambda: Gpt(4, 512, Experts), lambda: text(64)),
    "GPT-2 small, low rank beside frozen layers": Case(low_rank, lambda: text(64)),
    "GPT-2 small, gradient checkpointing": Case(
        lambda: Gpt(is_checkpointed=True), lambda: text(64)
    ),
    "GPT of 4 layers, bfloat16": Case(
        lambda: Gpt(4), lambda: text(64), 1, {"precision": "bf16-true"}
    ),
    "GPT of 4 layers, 4 batches accumulated": Case(
        lambda: Gpt(4), lambda: text(64), 1, {"accumulate_grad_batches": 4}
    ),
    "GPT of 4 layers, two processes": Case(
        lambda: Gpt(4), lambda: text(64), 1, {"devices": 2, "strategy": "ddp_spawn"}
    ),
}


class _Steps(pl.Callback):
    """What each step took: CPU seconds, or the peak of memory over what there was; and the weights
    at the end.
    """

    def __init__(
        self, start: Callable[[], float], end: Callable[[float], float], target: Path
    ) -> None:
        self.start, self.end, self.target = start, end, target
        self.taken: list[float] = []
        self.first = pl.Callback()
        self.first.on_train_batch_start = self._before  # type: ignore[method-assign]

    def _before(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == len(self.taken):  # of several batches of a step, the first
            self._began = self.start()

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step > len(self.taken):
            self.taken.append(self.end(self._began))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if trainer.is_global_zero:
            sha = hashlib.sha256()
            for tensor in pl_module.state_dict().values():
                sha.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().data)
            self.target.write_text(
                json.dumps({"taken": self.taken, "weights": sha.hexdigest()}), encoding="utf-8"
            )


def train(case: Case, run: Path, meter: _Steps, is_recorded: bool) -> None:
    torch.manual_seed(0)
    net, (inputs, targets) = case.make(), case.data()
    pair = [SummaryCollector(collect_freq=EVERY)] if is_recorded else []
    trainer = pl.Trainer(
        accelerator="cpu", max_steps=STEPS, max_epochs=-1,
        logger=MindInsightLogger(run, name="", version="") if pair else False,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        callbacks=[meter.first, *pair, meter], **{"devices": 1} | case.options,
    )  # fmt: skip
    trainer.fit(net, DataLoader(TensorDataset(inputs, targets), case.batch))


class _Turn:
    """One of two trainings, each in a thread, of which one runs at a time: after each step the
    other goes on.
    """

    def __init__(self) -> None:
        self.own, self.other = threading.Semaphore(0), self

    def end(self, began: float) -> float:
        seconds = time.process_time() - began
        self.other.own.release()
        self.own.acquire()
        return seconds

    def run(self, *arguments: Any) -> None:
        self.own.acquire()
        try:
            train(*arguments)
        finally:
            for _ in range(STEPS):  # whatever became of it
                self.other.own.release()


def in_turns(case: Case, folder: Path) -> None:
    """Seconds of each step both ways, in ``plain.json`` and ``pair.json``."""
    plain, pair = _Turn(), _Turn()
    plain.other, pair.other = pair, plain
    threads = []
    for turn, way in ((plain, "plain"), (pair, "pair")):
        meter = _Steps(time.process_time, turn.end, folder / f"{way}.json")
        threads.append(
            threading.Thread(target=turn.run, args=(case, folder / "run", meter, way == "pair"))
        )
        threads[-1].start()
    plain.own.release()
    for thread in threads:
        thread.join()


def status(key: str) -> float:
    """MiB of this process."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024


def reset_peak() -> float:
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return status("VmRSS")


def peak(_: float) -> float:
    return status("VmHWM")


def landscape(case: Case, folder: Path) -> dict[str, float]:
    """A landscape of three checkpoints: CPU seconds and the peak over the network, beside a plain
    loop's.
    """
    torch.manual_seed(0)
    net, (inputs, targets) = case.make().eval(), case.data()
    loader = DataLoader(TensorDataset(inputs[:8], targets[:8]), 2)
    settings = LandscapeSettings(GRID, num_samples=8, intervals=((1, 2, 3),))
    writer = LandscapeCheckpointWriter(folder / "run", "Net", settings, max_bytes=2**40)
    for number in (1, 2, 3):
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.001)
        writer.save(number, net.state_dict())
    size = sum(parameter.nbytes for parameter in net.parameters()) / 2**20
    before, began = reset_peak(), time.process_time()
    SummaryLandscape(folder / "run").generate(net, loader, accelerator="cpu", devices=1)
    seconds, most = time.process_time() - began, peak(0) - before
    before, began = reset_peak(), time.process_time()
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    axes = [scaled(one, state) for one in random_directions(state, moving_names(net))]
    line = [2 * number / (GRID - 1) - 1 for number in range(GRID)]
    # As many points of each kind: of a network whose weights are near zero, or twice what they
    # were, all is slower.
    points = [
        *((x, y) for x in line for y in line),
        *((0.001 * number, 0.0) for number in range(GRID**2 + 3)),
    ]
    moved = copy.deepcopy(net)
    with torch.no_grad():
        for x, y in points:
            for name, parameter in moved.named_parameters():
                if name in axes[0]:
                    parameter.copy_(state[name] + x * axes[0][name] + y * axes[1][name])
            for index, batch in enumerate(loader):
                float(moved.training_step(batch, index))
    loop = time.process_time() - began
    loop_most = peak(0) - before
    return {
        "loops": seconds / loop,
        "seconds": seconds,
        "models": most / size,
        "loop_models": loop_most / size,
    }


def one(name: str, what: str, folder: Path) -> None:
    """What a process of its own does."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for logger in (
        "lightning.pytorch",
        "lightning.pytorch.utilities.rank_zero",
        "mindsummary_lightning",
    ):
        logging.getLogger(logger).setLevel(logging.ERROR)
    case = CASES[name]
    if what == "landscape":
        (folder / "landscape.json").write_text(
            json.dumps(landscape(case, folder)), encoding="utf-8"
        )
    elif what == "turns":
        in_turns(case, folder)
    else:
        meter = _Steps(reset_peak, peak, folder / f"{what}.json")
        train(case, folder / what, meter, what.endswith("pair"))


def measured(name: str, case: Case) -> dict[str, Any]:
    """All figures of a model."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)

        def run(what: str) -> None:
            # Steps in turns keep the memory that they free: whose pages the system takes back would
            # be a throw of dice.
            kept = _KEEP_FREED_MEMORY if what == "turns" else {}
            command = [sys.executable, __file__, "--one", name, what, directory]
            subprocess.run(command, check=True, stdout=sys.stderr, env=os.environ | kept)

        def read(what: str) -> Any:
            return json.loads((folder / f"{what}.json").read_text(encoding="utf-8"))

        alternates = case.options.get("devices", 1) == 1
        for what in (["turns"] if alternates else []) + ["memory plain", "memory pair"]:
            run(what)
        plain, pair = read("memory plain"), read("memory pair")
        size = sum(parameter.nbytes for parameter in case.make().parameters()) / 2**20
        found: dict[str, Any] = {
            "model, MiB": size,
            "weights": "equal" if plain["weights"] == pair["weights"] else "DIFFER",
        }
        collected = [step for step in range(1, STEPS + 1) if step == 1 or step % EVERY == 0]
        others = [step for step in range(2, STEPS) if step not in collected]
        kinds = {"first": [1], "collected": collected[1:], "other": others}
        if alternates:
            plain_s, pair_s = read("plain")["taken"], read("pair")["taken"]
            found["plain step, s"] = base = statistics.median(plain_s[1:])
            for kind, of in kinds.items():  # a step beside the same one of the other training
                found[f"{kind}, plain steps more"] = (
                    statistics.median(pair_s[s - 1] - plain_s[s - 1] for s in of) / base
                )
            found["weights"] = (
                found["weights"]
                if read("plain")["weights"] == read("pair")["weights"]
                else "DIFFER"
            )
        for kind, of in kinds.items():
            found[f"{kind}, MiB"] = [max(way["taken"][s - 1] for s in of) for way in (plain, pair)]
        recorded = folder / "memory pair"
        found["file, kB"] = (
            sum(path.stat().st_size for path in recorded.rglob("*") if path.is_file()) / 1e3
        )
        graph = SummaryReader(recorded).graph()
        found["nodes"] = 0 if graph is None else len(graph.nodes)
        if case.has_landscape:
            run("landscape")
            found |= read("landscape")
        return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="GPT-2 medium too")
    parser.add_argument("--only", default="", help="models with this in their name")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(*arguments.one[:2], Path(arguments.one[2]))
        return
    rows = {}
    for name, case in CASES.items():
        if arguments.only in name and (arguments.full or "medium" not in name):
            rows[name] = found = measured(name, case)
            print(
                name,
                *(f"\n  {key}: {_shown(value)}" for key, value in found.items()),
                sep="",
                flush=True,
            )
    print(paired.machine())
    paired.save("large", "Large models", rows)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " -> ".join(map(_shown, value))
    return value if isinstance(value, str) else f"{value:.3g}" if value < 100 else f"{value:.0f}"


if __name__ == "__main__":
    main()
