"""How long an array takes to become a summary value in bytes, beside every peer that makes one.

``python benchmarks/values.py [--rounds N]``. The ways of a row take turns within each round, on one
thread; the table shows medians and the ratio to ours. The last row goes on to the file, beside a
write of the bare elements and their CRC32C, which is the least that it can take. With
``MINDSPORE_PYTHON`` set to an interpreter that has MindSpore, its own fill functions take part from
a process of their own, on the same arrays and in the same turns.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

sys.path.insert(0, os.path.dirname(__file__))

import numpy as np
import paired

OURS = "mindsummary_lightning"


def noise(size: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(size, dtype=np.float32)


def noisy_batch() -> np.ndarray:
    return np.random.default_rng(0).random((16, 3, 224, 224), dtype=np.float32)


def smooth_batch() -> np.ndarray:
    """Like photographs: waves with a little grain."""
    y, x = np.mgrid[0:224, 0:224]
    waves = [
        [0.5 + 0.3 * np.sin(x / (20 + n) + c) * np.cos(y / (30 + n)) for c in range(3)]
        for n in range(16)
    ]
    grain = np.random.default_rng(0).normal(0, 0.015, (16, 3, 224, 224))
    return (np.array(waves) + grain).clip(0, 1).astype(np.float32)


class Row(NamedTuple):
    """What is converted, how it is made, and how often in one turn."""

    kind: str
    make: Callable[[], np.ndarray]
    calls: int = 1


ROWS = {
    "histogram 1e4": Row("histogram", lambda: noise(10**4), calls=20),
    "histogram 1e6": Row("histogram", lambda: noise(10**6), calls=10),
    "histogram 1e7": Row("histogram", lambda: noise(10**7)),
    "tensor 1e5": Row("tensor", lambda: noise(10**5), calls=5),
    "tensor 1e6": Row("tensor", lambda: noise(10**6)),
    "image 16x3x224x224 noise": Row("image", noisy_batch),
    "image 16x3x224x224 smooth": Row("image", smooth_batch),
}


def seconds_a_call(way: Callable[[np.ndarray], Any], array: np.ndarray, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        way(array)
    return (time.perf_counter() - start) / calls


def ways() -> dict[str, dict[str, Callable[[np.ndarray], Any]]]:
    """What makes a histogram, a tensor and an image here; each ends in the bytes of the encoded
    value.
    """
    import tensorboardX.summary as tbx
    import torch
    from torch.utils.tensorboard import summary as tb
    from torch.utils.tensorboard import writer as tb_writer

    from mindsummary_lightning.conversion.histograms import to_histogram
    from mindsummary_lightning.conversion.image_batches import batch_to_image
    from mindsummary_lightning.conversion.numeric import to_tensor
    from mindsummary_lightning.fileformat.summary_codec import encode_event
    from mindsummary_lightning.values import Event

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, tb_writer.SummaryWriter(folder) as writer:
        bins = writer.default_bins  # what add_histogram takes when its caller names none

    def ours(convert: Callable[[Any], Any]) -> Callable[[np.ndarray], bytes]:
        return lambda array: b"".join(encode_event(Event(0.0, 1, (("tag", convert(array)),))))

    return {
        "histogram": {
            OURS: ours(to_histogram),
            "np.histogram, same edges": np_histogram,
            "torch SummaryWriter": lambda array: tb.histogram(
                "tag", array, bins
            ).SerializeToString(),
            "tensorboardX": lambda array: tbx.histogram("tag", array, bins).SerializeToString(),
        },
        "tensor": {
            OURS: ours(to_tensor),
            "torch SummaryWriter": lambda array: tb.tensor_proto(
                "tag", torch.from_numpy(array)
            ).SerializeToString(),
        },
        "image": {
            OURS: ours(batch_to_image),
            "torch SummaryWriter": lambda array: tb.image(
                "tag", array, dataformats="NCHW"
            ).SerializeToString(),
            "tensorboardX": lambda array: tbx.image(
                "tag", array, dataformats="NCHW"
            ).SerializeToString(),
        },
    }


def np_histogram(array: np.ndarray) -> Any:
    edges = np.linspace(float(array.min()), float(array.max()), 91, dtype=array.dtype)
    return np.histogram(array, bins=edges)


class MindSpore:
    """MindSpore's fill functions in an environment of their own: a row's name goes in, seconds come
    out.
    """

    def __init__(self, python: str) -> None:
        command = [python, __file__, "--serve-mindspore"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, row: str) -> float:
        """How long one turn of a row takes there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(row, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("seconds "):
                return float(line.split()[1])
        raise RuntimeError(
            f"MindSpore's process ended with {self._process.wait()} while it made {row!r}"
        )

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def serve_mindspore() -> None:
    """The other end of ``MindSpore``; runs in its environment and imports nothing of ours."""
    from mindspore.train.summary import _summary_adapter as adapter
    from mindspore.train.summary_pb2 import Event

    fill = {
        "histogram": lambda array, value: adapter._fill_histogram_summary(
            "tag", array, value.histogram
        ),
        "tensor": lambda array, value: adapter._fill_tensor_summary("tag", array, value.tensor),
        "image": lambda array, value: adapter._fill_image_summary("tag", array, value.image),
    }

    def way(kind: str) -> Callable[[np.ndarray], None]:
        def make_bytes(array: np.ndarray) -> None:
            event = Event()
            fill[kind](array, event.summary.value.add(tag="tag"))
            event.summary.SerializeToString()

        return make_bytes

    arrays: dict[str, np.ndarray] = {}
    for line in sys.stdin:
        row = ROWS[line.strip()]
        if line not in arrays:
            arrays[line] = row.make()
        print("seconds", seconds_a_call(way(row.kind), arrays[line], row.calls), flush=True)


def measured(rounds: int, only: str) -> dict[str, dict[str, list[float]]]:
    """Seconds in each round of every way of every row whose name contains ``only``."""
    python = os.environ.get("MINDSPORE_PYTHON")
    mindspore = MindSpore(python) if python else None
    local = ways()
    rows = {}
    for name, row in ROWS.items():
        if only in name:
            array = row.make()
            turns = {
                peer: partial(seconds_a_call, way, array, row.calls)
                for peer, way in local[row.kind].items()
            }
            if mindspore:
                turns["MindSpore"] = partial(mindspore.seconds, name)
            rows[name] = paired.rounds_of(turns, rounds)
    if mindspore:
        mindspore.close()
    return rows


def on_disk(rounds: int) -> dict[str, list[float]]:
    """Seconds in each round of a tensor of 1e6 elements from the array to its record in a file."""
    from crc32c import crc32c

    from mindsummary_lightning import SummaryRecord

    array = noise(10**6)
    with tempfile.TemporaryDirectory() as folder, SummaryRecord(folder) as record:
        descriptor = os.open(os.path.join(folder, "bare"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        steps = iter(range(rounds))

        def bare(array: np.ndarray) -> None:
            crc32c(array)
            os.write(descriptor, array)

        turns = {
            OURS: lambda: seconds_a_call(
                lambda array: record.add_tensor("tag", array, next(steps)), array, 1
            ),
            "write of the elements and their CRC32C": lambda: seconds_a_call(bare, array, 1),
        }
        found = paired.rounds_of(turns, rounds)
        os.close(descriptor)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=9, help="turns of each way; the median is shown"
    )
    parser.add_argument("--only", default="", help="measure the rows whose name contains this")
    parser.add_argument("--serve-mindspore", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve_mindspore:
        serve_mindspore()
        return
    rows = measured(arguments.rounds, arguments.only)
    if arguments.only in "tensor 1e6 on disk":
        rows["tensor 1e6 on disk"] = on_disk(2 * arguments.rounds)
    paired.report("values", "From an array to an encoded value", "ms", 1e3, rows)


if __name__ == "__main__":
    main()
