"""Processes that have PyTorch and Lightning imported when they begin: forked from one that has done
nothing else.

Importing both takes four seconds of a core, a test's training less than one. Tests of how a process
starts or ends, or of what it imports, start a new Python instead.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryFile
from typing import Any

ROOT = Path(__file__).parents[1]
_IMPORTED = [
    "pytest",
    "lightning.pytorch",
    "pytorch_lightning",
    "torch.distributed.fsdp",
    "tests.trainer.support",
]
_LIMIT_S = 200


def environment() -> dict[str, str]:
    """This process's, for another one that imports this checkout and computes with one thread."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def free_port() -> int:
    """A port of this machine that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def warm_processes() -> ForkServerContext:
    """What starts them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context


def start_warm(
    function: Callable[..., object],
    *arguments: object,
    stdout: int,
    stderr: int = 2,
    variables: Mapping[str, str] | None = None,
) -> BaseProcess:
    """Start a process that calls a module's function.

    Args:
        function: what is called.
        arguments: its arguments.
        stdout: descriptor of the file or pipe that becomes the process's standard output.
        stderr: the same for its standard error.
        variables: what is added to this process's environment.
    """
    outputs = [DupFd(stdout), DupFd(stderr)]
    everything = {**environment(), **(variables or {})}
    process = warm_processes().Process(
        target=_call, args=(function, arguments, everything, os.getcwd(), outputs)
    )
    process.start()
    return process


def run_warm(function: Callable[..., object], *arguments: object) -> CompletedProcess[str]:
    """Call a module's function in a process of its own."""
    return _run(function, arguments, [{}])


def run_two_ranks(
    function: Callable[..., object], *arguments: object, are_machines: bool = False
) -> CompletedProcess[str]:
    """Call a module's function in two processes of one group, with the variables that torchrun
    gives them.

    Args:
        function: what both call.
        arguments: its arguments.
        are_machines: whether each is the only process of a machine, as they see it.

    Returns:
        What both wrote, and the first exit status that is not 0.
    """
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    group = {**address, "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}
    places = [("0", "0"), ("1", "0")] if are_machines else [("0", "0"), ("0", "1")]
    each = [
        {**group, "RANK": str(rank), "GROUP_RANK": machine, "LOCAL_RANK": place}
        for rank, (machine, place) in enumerate(places)
    ]
    return _run(function, arguments, each)


def as_script(path: Path, *arguments: object) -> None:
    """Run a file as Python runs a script."""
    sys.argv = [str(path), *map(str, arguments)]
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")


def _run(
    function: Callable[..., object], arguments: Sequence[object], each: Sequence[Mapping[str, str]]
) -> CompletedProcess[str]:
    with (
        TemporaryFile("w+", encoding="utf-8") as stdout,
        TemporaryFile("w+", encoding="utf-8") as stderr,
    ):
        outputs: Any = {"stdout": stdout.fileno(), "stderr": stderr.fileno()}
        processes = [
            start_warm(function, *arguments, variables=variables, **outputs) for variables in each
        ]
        try:
            for process in processes:
                process.join(_LIMIT_S)
        finally:
            for process in processes:
                # one that waits for another that has failed; pytest itself would wait for it
                process.kill()
                process.join()
        for output in (stdout, stderr):
            output.seek(0)
        status = next((process.exitcode for process in processes if process.exitcode), 0)
        return CompletedProcess(
            [str(argument) for argument in arguments], status, stdout.read(), stderr.read()
        )


def _call(
    function: Callable[..., object],
    arguments: Sequence[object],
    environment: dict[str, str],
    directory: str,
    outputs: Sequence[Any],
) -> None:
    for descriptor, output in enumerate(outputs, 1):
        os.dup2(output.detach(), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    function(*arguments)
