"""What the chain of a step costs: a step that is not recorded, one that is, and its bytes.

``python benchmarks/modules.py [--rounds N]``. A GPT and a ResNet, on the CPU with one thread. Steps
without us, with a ``StepRecorder`` that records none of them, and with one that records each, take
turns; so do trainings in Lightning with the pair alone, and with ``collect_output_statistics`` of a
step that never comes.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable

import torch
from every_parameter import Gpt
from overhead import mlp, trained_in_turns
from torch import nn
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile

from mindsummary_lightning import MindInsightLogger, StepRecorder, SummaryCollector, SummaryReader

Loss = Callable[[nn.Module], torch.Tensor]


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)])
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of images, NCHW."""
        y = self.norms[0](self.first(x)).relu_()
        return (self.norms[1](self.second(y)) + self.short(x)).relu_()


def resnet() -> tuple[nn.Module, Loss]:
    """Eight blocks on 8 images of 32 x 32."""
    widths = [32, 32, 64, 64, 128, 128, 256, 256]
    blocks = [Block(a, b, 1 if a == b else 2) for a, b in zip([32, *widths], widths, strict=False)]
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    images, labels = torch.randn(8, 3, 32, 32), torch.arange(8)
    return net, lambda net: cross_entropy(net(images), labels)


def gpt() -> tuple[nn.Module, Loss]:
    """1.9 million elements, on 8 texts of 128 bytes."""
    text = torch.randint(0, 256, (8, 128))
    return Gpt(), lambda net: net.training_step([text], 0)


def seconds_of(
    recorder: StepRecorder | None, net: nn.Module, optimizer: torch.optim.Optimizer, loss_of: Loss
) -> float:
    """CPU seconds of one step."""
    begin = time.process_time()
    if recorder is None:
        loss_of(net).backward()
        optimizer.step()
    else:
        with recorder.step(net, optimizer) as loss_is:
            loss = loss_of(net)
            loss_is(loss)
            loss.backward()
            optimizer.step()
    optimizer.zero_grad()
    return time.process_time() - begin


def peak_of(
    recorder: StepRecorder | None, net: nn.Module, optimizer: torch.optim.Optimizer, loss_of: Loss
) -> float:
    """Greatest memory of tensors in one step beyond what they had before it, in MiB."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        seconds_of(recorder, net, optimizer, loss_of)
    results = profiler.profiler.kineto_results
    changes = [event.nbytes() for event in results.events() if event.name() == "[memory]"]
    return max(itertools.accumulate(changes)) / 2**20


def in_lightning(rounds: int) -> float:
    """Steps that are not recorded, with the option in times of those without."""
    seconds: list[dict[str, float]] = []
    for _ in range(rounds):
        ways = {
            str(chosen): lambda directory, chosen=chosen: (
                MindInsightLogger(directory),
                [SummaryCollector(collect_output_statistics=chosen)],
            )
            for chosen in (None, (10**9,))
        }
        seconds.append(trained_in_turns(ways, mlp(1000, 784, 128, 32), 40))
    return statistics.median(each["(1000000000,)"] / each["None"] for each in seconds)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    for make in (resnet, gpt):
        net, loss_of = make()
        optimizer = torch.optim.AdamW(net.parameters(), 1e-4)
        directory = tempfile.mkdtemp()
        recorders = {
            "plain": None,
            "not recorded": StepRecorder(tempfile.mkdtemp(), (10**9,)),
            "recorded": StepRecorder(directory, range(1, 10**6)),
        }

        for _ in range(3):
            seconds_of(None, net, optimizer, loss_of)
        seconds: dict[str, list[float]] = {name: [] for name in recorders}
        for turn in range(rounds):
            names = [*recorders][:: 1 if turn % 2 else -1]
            for name in names:
                if name == "recorded" and turn % 5:
                    continue
                seconds[name].append(seconds_of(recorders[name], net, optimizer, loss_of))
        ways = ("plain", "recorded")
        plain = statistics.median(seconds["plain"])
        free = statistics.median(
            b / a for a, b in zip(seconds["plain"], seconds["not recorded"], strict=True)
        )
        recorded = statistics.median(seconds["recorded"])
        peaks = [peak_of(recorders[name], net, optimizer, loss_of) for name in ways]
        table = SummaryReader(directory).output_statistics()
        assert table is not None
        size = sum(
            entry.stat().st_size for entry in os.scandir(directory) if "summary" in entry.name
        )
        print(
            f"{make.__name__}: plain step {plain * 1e3:.1f} ms; not recorded {free:.3f} of "
            "it; recorded "
            f"{recorded / plain:.2f} of it; {len(table.rows)} rows, "
            f"{size / table.steps.size / 1e3:.1f} kB a step; "
            f"peak of tensors {peaks[0]:.2f} MiB, recorded {peaks[1]:.2f}"
        )
    print(
        f"a training of Lightning that records no chain: {in_lightning(rounds // 2):.3f} of "
        "one without the option"
    )


if __name__ == "__main__":
    main()
