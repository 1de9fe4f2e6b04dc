"""Loss landscapes against a plain loop, against MindSpore's and against more processes, in one
paired run.

Run it as ``python benchmarks/landscape.py`` (``--rows`` for a quicker look; ``--models`` for the
time and the memory of six models with batches of 32 alone, ``--threads`` for another number than
one). With ``MINDSPORE_PYTHON`` set to the Python of an environment that has MindSpore 2.7.0, its
SummaryLandscape is timed on the same network and samples.
"""

from __future__ import annotations

import argparse
import copy
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))

import numpy as np
import paired
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning.landscape.batches import Batch
from mindsummary_lightning.landscape.checkpoint_names import moving_names
from mindsummary_lightning.landscape.checkpoints import LandscapeCheckpointWriter
from mindsummary_lightning.landscape.directions import final_axes, random_directions, scaled
from mindsummary_lightning.landscape.evaluation import EvaluationOptions, PlaneLoss, first_loss
from mindsummary_lightning.landscape.grid import LandscapeGrid
from mindsummary_lightning.landscape.mean_loss import MeanLoss
from mindsummary_lightning.landscape.plane import FlatPlane, Plane
from mindsummary_lightning.landscape.shortcuts import loss_on_plane
from mindsummary_lightning.landscape.summary_landscape import SummaryLandscape
from mindsummary_lightning.values.landscape_settings import LandscapeSettings

SIZE = 40
SAMPLES = 2048
CPU = torch.device("cpu")
LOSS = nn.CrossEntropyLoss()
Way = Callable[[np.ndarray], np.ndarray]
EMPTY: Mapping[str, float] = {}
OPEN = ExitStack()
FOUND: dict[str, float] = {}  # seconds a grid point of every way, and of whole calls

MINDSPORE = """
import sys, tempfile, time, contextlib, io
import numpy as np, mindspore as ms
from mindspore import nn
from mindspore.train import Loss, Model, SummaryLandscape
ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
batch, points = int(sys.argv[1]), 20
x = np.random.RandomState(0).normal(size=(2048, 784)).astype(np.float32)
y = np.random.RandomState(1).randint(0, 10, 2048).astype(np.int32)
net = nn.SequentialCell(nn.Dense(784, 128), nn.ReLU(), nn.Dense(128, 10))
metrics = {"Loss": Loss()}
model = Model(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"), metrics=metrics)
data = ms.dataset.NumpySlicesDataset((x, y), shuffle=False).batch(batch)
parameters = [ms.Parameter(p.value(), name=p.name) for p in net.get_parameters()]
values = [p.asnumpy() for p in parameters]
axes = [
    [np.random.RandomState(k).normal(size=v.shape).astype(np.float32) * 0.01 for v in values]
    for k in (2, 3)
]
landscape = SummaryLandscape(tempfile.mkdtemp())
def run(count):
    alphas = np.linspace(-1, 1, count)
    with contextlib.redirect_stdout(io.StringIO()):
        landscape._cont_loss(data, net, model, metrics, parameters, values, alphas, 0.5, *axes)
run(2)
start = time.perf_counter(), time.process_time()
run(points)
print("seconds", min(time.perf_counter() - start[0], time.process_time() - start[1]) / points)
"""


class Cnn(nn.Sequential):
    """Convolutions whose fan-in is too small for three passes; BatchNorm."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(32, 10),
        )  # fmt: skip


class Mlp(nn.Sequential):
    """784-128-10, for 28x28 pixels."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


class Tiny(nn.Sequential):
    """20-32-2, where Python costs more than arithmetic."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 2))


class Tokens(nn.Module):
    """128 tokens through an embedding, a layer that reads them in order or all at once,
    and a head.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.embedding, self.layer, self.head = nn.Embedding(1000, 64), layer, nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of ten classes."""
        answer = self.layer(self.embedding(x))
        return self.head((answer[0] if isinstance(answer, tuple) else answer).mean(1))


class OneTensor(nn.Module):
    """191 MiB in one embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(500_000, 100), nn.Linear(100, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of ten classes."""
        return self.head(self.embedding(x).mean(1))


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return Tokens(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))


def fourteen_layers() -> nn.Module:
    return nn.Sequential(
        nn.Linear(784, 1024),
        *(part for _ in range(13) for part in (nn.ReLU(), nn.Linear(1024, 1024))),
    )


IMAGES, TOKENS = (3, 32, 32), (128,)
SMALL_BATCH = 32
# Network, shape of a sample, samples, points of a row that are timed.
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int, int]] = {
    "MLP 784-128-10": (Mlp, (784,), 1024, 10),
    "convolutions 3-16-32, BatchNorm": (Cnn, IMAGES, 256, 2),
    "transformer, 2 layers of 64": (transformer, TOKENS, 128, 3),
    "LSTM of 64": (lambda: Tokens(nn.LSTM(64, 64, batch_first=True)), TOKENS, 128, 3),
    "one tensor of 191 MiB": (OneTensor, TOKENS, 128, 3),
    "14 layers of 1024": (fourteen_layers, (784,), 128, 3),
}


def small_batches(shape: tuple[int, ...], count: int) -> list[Batch]:
    torch.manual_seed(0)
    x = torch.randint(0, 1000, (count, *shape)) if shape == TOKENS else torch.randn(count, *shape)
    y = torch.randint(0, 10, (count,))
    return [
        Batch(part, len(part[0]))
        for part in zip(x.split(SMALL_BATCH), y.split(SMALL_BATCH), strict=True)
    ]


def time_models(rows: int) -> None:
    """Batches as users have them; what is done once for a landscape is counted in, as a share of
    its 1,600 points.
    """
    for name, (make, shape, count, points) in MODELS.items():
        torch.manual_seed(0)
        net, batches = make(), small_batches(shape, count)
        job = job_of(net)
        start = time.process_time()
        package = ours(net, job, batches)
        once = (time.process_time() - start) / SIZE**2
        ways = {
            f"{name}, batches of 32: plain loop": naive(net, job, batches),
            "  this package": package,
        }
        timed(ways, job, rows, points, {"  this package": once})
        OPEN.close()


def memory(name: str, checkpoints: int, run: str) -> float:
    """MiB that a call needs beside the network that it is given, in a process of its own."""
    command = [
        sys.executable,
        __file__,
        "--memory",
        name,
        "--checkpoints",
        str(checkpoints),
        "--run",
        run,
    ]
    return float(
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]
    )


def show_memory_of_models() -> None:
    """The peak of a whole call over a short and a long interval of checkpoints."""
    print(
        f"{'peak of a whole call beside the network, MiB':<58} {'size':>9} {'3 ckpts':>9} "
        f"{'19 ckpts':>9} {'ratio':>9}"
    )
    for name, (make, *_) in MODELS.items():
        with tempfile.TemporaryDirectory() as run:
            net = make()
            size = sum(tensor.nbytes for tensor in net.parameters()) / 2**20
            settings = LandscapeSettings(3, num_samples=64, intervals=(tuple(range(1, 20)),))
            writer = LandscapeCheckpointWriter(run, "Net", settings, max_bytes=2**40)
            for number in range(1, 20):
                with torch.no_grad():
                    for parameter in net.parameters():
                        parameter.add_(torch.randn(()) * parameter.roll(1), alpha=0.01)
                writer.save(number, net.state_dict())
            few, many = (memory(name, count, run) for count in (3, 19))
        FOUND.update({f"{name}, MiB, 3 checkpoints": few, f"{name}, MiB, 19 checkpoints": many})
        print(f"{name:<58} {size:>9.1f} {few:>9.0f} {many:>9.0f} {many / size:>9.2f}", flush=True)


def print_memory(name: str, checkpoints: int, run: str) -> None:
    """What :func:`memory` runs: peak of resident memory, mapped files included, less what there was
    before the call.
    """
    make, shape, _, _ = MODELS[name]
    net, batches = make(), [batch.data for batch in small_batches(shape, 64)]
    with (
        tempfile.TemporaryDirectory() as output,
        open("/proc/self/clear_refs", "w", encoding="utf-8") as peak,
    ):
        peak.write("5")  # the peak is what there is now
        peak.flush()
        before = _status("VmRSS")
        intervals = {"intervals": [list(range(20 - checkpoints, 20))]}
        SummaryLandscape(run).generate(
            net,
            batches,
            LOSS,
            accelerator="cpu",
            devices=1,
            output=output,
            collect_landscape=intervals,
        )
        print(_status("VmHWM") - before)


def _status(key: str) -> float:
    with open("/proc/self/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024


def job_of(net: nn.Module) -> LandscapeGrid:
    state = {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}
    plane = Plane(
        state, *(scaled(one, state) for one in random_directions(state, moving_names(net), 0))
    )
    return LandscapeGrid((1,), lambda: plane, *final_axes(SIZE))


def naive(net: nn.Module, job: LandscapeGrid, batches: list[Batch]) -> Way:
    """The loop anyone would write: set the parameters in place, run the network on its samples."""
    net, plane = copy.deepcopy(net).eval(), job.plane()
    parameters = dict(net.named_parameters())
    weights = np.array([batch.samples for batch in batches], float)
    weights /= weights.sum()

    def losses(points: np.ndarray) -> np.ndarray:
        found = []
        with torch.no_grad():
            for x, y in points.tolist():
                for name, first in plane.first.items():
                    parameters[name].copy_(plane.anchor[name] + x * first + y * plane.second[name])
                found.append(
                    weights @ [LOSS(net(batch.data[0]), batch.data[1]).item() for batch in batches]
                )
        return np.array(found)

    return losses


def ours(net: nn.Module, job: LandscapeGrid, batches: list[Batch], **options: Any) -> Way:
    where = (tuple(batches), CPU, EvaluationOptions(**options))
    loss = MeanLoss(net, LOSS)
    first_loss(loss, job.plane().anchor, batches, CPU, EvaluationOptions())
    return prepared(loss_on_plane(loss, job, *where)[1])


def without_structure(net: nn.Module, job: LandscapeGrid, batches: list[Batch]) -> Way:
    plane = FlatPlane(job.plane(), CPU)
    return prepared(
        PlaneLoss(MeanLoss(copy.deepcopy(net), LOSS), plane, batches, EvaluationOptions())
    )


def prepared(plane_loss: PlaneLoss) -> Way:
    """Set up once for all rows, as a landscape is."""
    OPEN.enter_context(plane_loss.prepared())
    plane_loss.losses(np.zeros((2, 2)))  # what it learns about the network in its first row
    return plane_loss.losses


def timed(
    ways: dict[str, Way],
    job: LandscapeGrid,
    rows: int,
    points: int = SIZE,
    once: Mapping[str, float] = EMPTY,
) -> None:
    """Print seconds a grid point: the ways take turns on each row, so a ratio is of neighbours in
    time.

    CPU seconds of one thread, so that other work on the machine counts less, or seconds by the
    clock of several; and each way's ``once`` for a point.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    base = next(iter(ways))
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    for turn, row in enumerate(np.linspace(0, SIZE - 1, rows).astype(int)):
        chosen = job.rows()[row][:points]
        found = {}
        for name in [*list(ways)[turn % len(ways) :], *list(ways)[: turn % len(ways)]]:
            start = clock()
            found[name] = ways[name](chosen)
            seconds[name].append((clock() - start) / points + once.get(name, 0.0))
        for name in ways:
            np.testing.assert_allclose(found[name], found[base], rtol=1e-5)
    for name, times in seconds.items():
        ratios = [mine / theirs for mine, theirs in zip(times, seconds[base], strict=True)]
        show(name, statistics.median(times), statistics.median(ratios))


def show(name: str, per_point: float, ratio: float) -> None:
    FOUND[name] = per_point
    print(
        f"{name:<58} {SIZE * SIZE * per_point:>9.2f} {1e3 * per_point:>9.3f} {ratio:>9.3f}",
        flush=True,
    )


def samples(net: nn.Module, batch: int) -> list[Batch]:
    torch.manual_seed(0)
    shape = {Mlp: (784,), Cnn: (3, 32, 32), Tiny: (20,)}[type(net)]
    count = 256 if isinstance(net, Tiny) else SAMPLES
    x, y = torch.randn(count, *shape), torch.randint(0, 2, (count,))
    return [Batch(part, len(part[0])) for part in zip(x.split(batch), y.split(batch), strict=True)]


def mindspore(batch: int) -> float | None:
    python = os.environ.get("MINDSPORE_PYTHON")
    if not python:
        return None
    answer = subprocess.run(
        [python, "-c", MINDSPORE, str(batch)], capture_output=True, text=True, check=True
    )
    # The smaller of wall and CPU time: its threads may wait, or share the machine with others.
    return float(answer.stdout.split("seconds")[1])


def processes(rows: int) -> tuple[float, float, float]:
    """Seconds of whole calls on the CNN: one process, two, and two that have nothing to compute."""
    seconds = []
    for devices, size in ((1, rows), (2, rows), (2, 3)):
        with tempfile.TemporaryDirectory() as run:
            torch.manual_seed(0)
            settings = LandscapeSettings(landscape_size=size, num_samples=SAMPLES, train=False)
            writer = LandscapeCheckpointWriter(run, "Cnn", settings)
            writer.save(1, Cnn().state_dict())
            writer.write()
            batches = [batch.data for batch in samples(Cnn(), 256)]
            data = TensorDataset(*(torch.cat(column) for column in zip(*batches, strict=True)))
            start = time.perf_counter()
            SummaryLandscape(run).generate(
                Cnn(),
                DataLoader(data, 256),
                LOSS,
                accelerator="cpu",
                devices=devices,
                collect_landscape=None,
            )
            seconds.append(time.perf_counter() - start)
    return seconds[0], seconds[1], seconds[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows",
        type=int,
        default=8,
        help="rows of the 40x40 grid to time, scaled to the whole grid",
    )
    parser.add_argument(
        "--models", action="store_true", help="only the six models with batches of 32"
    )
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    parser.add_argument("--checkpoints", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    rows = arguments.rows
    torch.set_num_threads(arguments.threads)
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    if arguments.memory:
        print_memory(arguments.memory, arguments.checkpoints, arguments.run)
        return
    print(
        f"torch {torch.__version__}, {arguments.threads} of {os.cpu_count()} cores used, "
        f"{platform.platform()}, "
        f"{sys.version.split()[0]}"
    )
    print(f"{'way':<58} {'40x40 s':>9} {'ms/point':>9} {'ratio':>9}")

    time_models(rows)
    show_memory_of_models()
    if arguments.models:
        paired.save("landscape", "Loss landscapes", {"seconds a point; of whole calls": FOUND})
        return
    net = Mlp()
    batch, small = samples(net, SAMPLES), samples(net, 32)
    job = job_of(net)
    plain = naive(net, job, batch)
    ways = {
        "MLP 784-128-10, 2,048 samples: plain loop": plain,
        "  this package, structure not used": without_structure(net, job, batch),
        "  this package": ours(net, job, batch),
        "  plain loop, batches of 32": naive(net, job, small),
        "  this package, batches of 32": ours(net, job, small),
    }
    timed(ways, job, rows)
    for size in (SAMPLES, 32):
        start = time.process_time()
        plain(job.rows()[0])
        base = (time.process_time() - start) / SIZE
        if (theirs := mindspore(size)) is not None:
            show(
                f"  MindSpore SummaryLandscape, batches of {size} (20 points)",
                theirs,
                theirs / base,
            )

    net = Cnn()
    batch = samples(net, 256)
    job = job_of(net)
    ways = {
        "CNN 3-16-32 with BatchNorm, 32x32, batches of 256: plain loop": naive(net, job, batch),
        "  this package": ours(net, job, batch),
    }
    timed(ways, job, 2 * rows, points=4)

    net = Tiny()
    batch = samples(net, 256)
    job = job_of(net)
    ways = {"MLP 20-32-2, 256 samples: plain loop": naive(net, job, batch)}
    ways |= {
        f"  this package, points_at_once={k}": ours(net, job, batch, points_at_once=k)
        for k in (1, 8, 40)
    }
    timed(ways, job, SIZE)

    OPEN.close()
    size = max(3, 5 * rows // 2)
    one, two, start = processes(size)
    print(
        f"CNN, {size}x{size} grid, whole calls: 1 process {one:.1f} s, 2 processes {two:.1f} "
        f"s, {one / two:.2f} x"
    )
    print(f"  a call of 2 processes with a 3x3 grid takes {start:.1f} s, most of it starting them")
    FOUND.update({f"{size}x{size}, 1 process": one, f"{size}x{size}, 2 processes": two})
    paired.save("landscape", "Loss landscapes", {"seconds a point; of whole calls": FOUND})


if __name__ == "__main__":
    main()
