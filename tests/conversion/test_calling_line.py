"""The line of the user's code that made a call."""

from __future__ import annotations

import _thread
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from mindsummary_lightning.conversion.calling_line import calling_line


def _function(module: str, file: Path | str) -> Callable[[Callable[[], str]], str]:
    """A function of a module in a file, whose third line calls what it is given."""
    code = compile("def run(call):\n    #\n    return call()\n", str(file), "exec")
    names: dict[str, object] = {"__name__": module}
    exec(code, names)
    return names["run"]  # type: ignore[return-value]


def test_the_line_is_that_of_the_caller_itself_relative_to_the_working_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Path(__file__)
    monkeypatch.chdir(here.parent.parent)

    line = sys._getframe().f_lineno + 1
    assert calling_line() == f"{here.parent.name}{os.sep}{here.name}:{line}"


@pytest.mark.parametrize(
    "module",
    ["torch", "torch.nn", "lightning.pytorch", "pytorch_lightning", "lightning_fabric.x",
     "mindspore.nn", "mindsummary_lightning.trainer", "contextlib"],
)  # fmt: skip
def test_frames_of_frameworks_and_of_generated_code_are_skipped(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    user = _function("net", tmp_path / "models" / "net.py")
    framework, generated = _function(module, "/lib/x.py"), _function("net", "<string>")

    inner = partial(framework, partial(generated, calling_line))
    assert user(inner) == f"models{os.sep}net.py:3"
    assert framework(partial(user, calling_line)) == f"models{os.sep}net.py:3"
    line = sys._getframe().f_lineno + 1
    assert inner() == f"{Path(__file__).name}:{line}"


@pytest.mark.parametrize(
    ("module", "file", "shown"),
    [
        ("torchvision.models", "/lib/site-packages/torchvision/models/net.py",
         "torchvision/models/net.py:3"),
        ("timm", "/usr/lib/dist-packages/timm/net.py", "timm/net.py:3"),
        ("net", "/lib/site-packages/a/site-packages/b/net.py", "b/net.py:3"),
        ("net", "/elsewhere/models/net.py", "net.py:3"),
        ("net", "models/net.py", "models/net.py:3"),
        ("lightning_models.net", "/elsewhere/net.py", "net.py:3"),
        ("a.torch", "/elsewhere/net.py", "net.py:3"),
    ],
)  # fmt: skip
def test_a_file_is_named_without_where_it_is_installed(module: str, file: str, shown: str) -> None:
    assert _function(module, file)(calling_line) == shown


def test_without_a_frame_of_the_user_there_is_no_line() -> None:
    found: SimpleQueue[str] = SimpleQueue()
    names: dict[str, Any] = {"__name__": "torch.autograd"}
    exec(compile("def run(call, found):\n    found.put(call())\n", "/lib/x.py", "exec"), names)

    _thread.start_new_thread(names["run"], (calling_line, found))

    assert found.get(timeout=30) == ""
