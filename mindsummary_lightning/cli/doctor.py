"""``mindsummary doctor``: check the installation for ``view``, or a device."""

from __future__ import annotations

import argparse
import sys
from importlib import metadata
from typing import Any

from mindsummary_lightning.cli.arguments import argument, json_of
from mindsummary_lightning.cli.output import Answer, UsageError, columns, say_step
from mindsummary_lightning.viewer.frontend import find_pip, has_frontend
from mindsummary_lightning.viewer.user_directories import cache_directory

ARGUMENTS = (
    argument(
        "--device",
        help="compare recording on this device (cuda, npu, mps, ...) with the CPU's, for a report",
    ),
    json_of("what was found"),
)


def run(arguments: argparse.Namespace) -> Answer:
    """Print one line per requirement; exit 1 if a requirement is not met."""
    if arguments.device is not None:
        return _proven(arguments.device)
    needs = [_need("Python", ".".join(map(str, sys.version_info[:3])))]
    for package in ("aiohttp", "numpy", "protobuf", "crc32c"):
        try:
            needs.append(_need(package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            needs.append(
                _need(package, f"is missing: python -m pip install {package}", is_met=False)
            )
    has_packages = all(need["is_met"] for need in needs)
    needs += _examine_frontend()
    if_not = "shows only the table of runs: {} is missing" if has_packages else "cannot work: {}"
    return _answer(needs, "`mindsummary view` has all it needs", f"`mindsummary view` {if_not}")


def _proven(device: str) -> Answer:
    say_step("importing PyTorch and Lightning, then a training on each device")
    from mindsummary_lightning.trainer.device_proof import prove_device

    try:
        found = [_need(*proof) for proof in prove_device(device)]
    except ValueError as error:
        raise UsageError(f"--device: {error}") from error
    return _answer(
        found,
        f"recording on {device} is as expected",
        f"recording on {device} is not as expected in {{}}",
    )


def _answer(needs: list[dict[str, Any]], if_met: str, if_not: str) -> Answer:
    others = ", ".join(need["name"] for need in needs if not need["is_met"])
    lines = columns([[need["name"], need["state"]] for need in needs])
    return Answer(
        {"needs": needs},
        [*lines, "", if_not.format(others) if others else if_met],
        int(bool(others)),
    )


def _examine_frontend() -> list[dict[str, Any]]:
    try:
        needs = [_need("cache", cache_directory())]
    except OSError as error:
        return [_need("cache", f"cannot be used: {error}", is_met=False)]
    if has_frontend():
        return [*needs, _need("front end", "is in the cache")]
    pip = find_pip()
    if pip:
        return [*needs, _need("front end", f"is fetched on the first start, by {' '.join(pip)}")]
    missing = (
        "is not in the cache, and there is no pip to fetch it: use `mindsummary view --wheel FILE`"
    )
    return [*needs, _need("front end", missing, is_met=False)]


def _need(name: str, state: str, is_met: bool = True) -> dict[str, Any]:
    return {"name": name, "state": state, "is_met": is_met}
