"""Ways of doing the same work, timed in turns on one machine, and their ratio to the first way."""

from __future__ import annotations

import json
import os
import platform
import random
import socket
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import truediv
from pathlib import Path
from typing import TypeAlias, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Rows: TypeAlias = "Mapping[str, Mapping[str, Sequence[float]]]"


def machine() -> str:
    """What the figures were taken on."""
    model = platform.processor() or platform.machine()
    with (
        Path("/proc/cpuinfo").open(encoding="utf-8")
        if Path("/proc/cpuinfo").exists()
        else Path(os.devnull).open(encoding="utf-8") as lines
    ):
        model = next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
            model,
        )
    return f"{model}, {os.cpu_count()} CPUs, Python {platform.python_version()}"


def free_port() -> int:
    """A port of this machine that nobody listens on, as another benchmark may be running."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def rounds_of(ways: Mapping[K, Callable[[], T]], rounds: int) -> dict[K, list[T]]:
    """What each way says that it took in each round.

    All take turns in a round, in another order each time: whoever follows a peer that leaves the
    caches cold, or the machine asleep, pays for it.
    """
    taken: dict[K, list[T]] = {name: [] for name in ways}
    order = list(ways)
    shuffle = random.Random(0).shuffle
    for _ in range(rounds):
        shuffle(order)
        for name in order:
            taken[name].append(ways[name]())
    return taken


def ratios(rounds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """How many times the first way's seconds each way takes: the median over the rounds.

    Seconds of one round are compared, because a machine that others share too runs at another speed
    in the next one.
    """
    first = next(iter(rounds.values()))
    return {
        name: statistics.median(map(truediv, seconds, first)) for name, seconds in rounds.items()
    }


def table(title: str, unit: str, scale: float, rows: Rows, first: str = "ours") -> str:
    """A Markdown table: a row of the work, for each way its median in ``unit`` and its ratio to the
    first.
    """
    lines = [f"### {title}", "", f"| work | way | {unit} | x {first} |", "|---|---|---:|---:|"]
    for work, found in rows.items():
        ratio = ratios(found)
        lines += [
            f"| {work} | {name} | {statistics.median(seconds) * scale:.4g} | {ratio[name]:.2f} |"
            for name, seconds in found.items()
        ]
    return "\n".join(lines) + "\n"


def report(name: str, title: str, unit: str, scale: float, rows: Rows, first: str = "ours") -> None:
    """Print the table, and add all seconds to the JSON file that ``BENCH_JSON`` names.

    Args:
        name: key of the table in the file.
        title: its heading.
        unit: what ``scale`` makes of seconds.
        scale: units in a second.
        rows: for each piece of work the seconds of each way in each round.
        first: what the table calls the first way.
    """
    print(f"{table(title, unit, scale, rows, first)}\n{machine()}\n", flush=True)
    save(name, title, rows)


def save(name: str, title: str, rows: Mapping[str, Mapping[str, Sequence[float] | float]]) -> None:
    """Add a table's seconds to the JSON file that ``BENCH_JSON`` names, if it does."""
    target = os.environ.get("BENCH_JSON")
    if target:
        path = Path(target)
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        known[name] = {"title": title, "machine": machine(), "seconds": rows}
        path.write_text(json.dumps(known, indent=1), encoding="utf-8")
