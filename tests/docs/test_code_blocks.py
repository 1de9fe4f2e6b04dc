"""The code of the pages runs as it stands there.

Blocks of one page run in order, in one namespace and in a directory in which a reader of docs/first-run.md has trained
twice (sections 2 and 5 of that page). ``python`` and ``console`` blocks always run; with prompts (``>>>``, ``$``) they
must print what is printed there, where ``...`` stands for anything. ``<!-- not run: reason -->`` before a block keeps
it from running, and ``<!-- run first:`` holds code that readers need not see. ``model`` and ``data`` are a small
LightningModule and a DataLoader.
"""

from __future__ import annotations

import ast
import doctest
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning.cli import main
from tests.docs.pages import ROOT, Block, blocks, english_pages

_FIRST_RUN = "docs/first-run.md"
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
_PAGES = [
    name
    for page in english_pages()
    if (name := page.relative_to(ROOT).as_posix())
    if any(_block.language in ("python", "console") for _block in blocks(page.read_text(encoding="utf-8")))
]


class _Model(L.LightningModule):
    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.layers(images)
        return scores

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture(autouse=True)
def _short_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page leaves to the Trainer is chosen for a test."""
    for name, value in {"MAX_EPOCHS": "2", "ACCELERATOR": "'cpu'", "ENABLE_PROGRESS_BAR": "False"}.items():
        monkeypatch.setenv(f"PL_TRAINER_{name}", value)
    monkeypatch.setenv("MPLBACKEND", "Agg")


def _names() -> dict[str, Any]:
    torch.manual_seed(0)
    data = DataLoader(TensorDataset(torch.rand(64, 1, 8, 8), torch.randint(10, (64,))), batch_size=16)
    return {"__name__": "__main__", "model": _Model(), "data": data}


def _run_python(block: Block, page: Path, names: dict[str, Any]) -> None:
    if ">>> " not in block.code:
        tree = ast.increment_lineno(ast.parse(block.code, str(page)), block.line - 1)  # an error names the page's line
        exec(compile(tree, str(page), "exec"), names)
        return
    example = doctest.DocTestParser().get_doctest(block.code, names, page.name, str(page), block.line - 1)
    example.globs = names  # what one block imports, the next ones use
    printed: list[str] = []
    doctest.DocTestRunner(optionflags=_FLAGS).run(example, out=printed.append, clear_globs=False)
    if printed:
        pytest.fail("".join(printed), pytrace=False)


def _run_console(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.code, re.MULTILINE):
        capsys.readouterr()
        words = [word for text in shlex.split(command) for word in (sorted(glob.glob(text)) or [text])]
        if words[0] == "mindsummary" and not {"|", ">"} & set(words):
            main(words[1:])
            answer = capsys.readouterr()
            printed = answer.out + answer.err
        else:
            printed = subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout
        if not doctest.OutputChecker().check_output(expected, printed, _FLAGS):
            pytest.fail(f"{command} prints\n{printed}\nbut the page says\n{expected}", pytrace=False)


def _runnable(text: str) -> Iterator[Block]:
    for block in blocks(text):
        if block.language in ("python", "console") and block.mark != "not run":
            yield block


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is there after the first run's page: its script, and the runs that sections 2 and 5 leave."""
    folder = tmp_path_factory.mktemp("first_run")
    text = (ROOT / _FIRST_RUN).read_text(encoding="utf-8")
    (script,) = (block.code for block in blocks(text) if block.language == "python")
    found = re.search(r"Change the line to `(model = .*?)`", text)
    assert found is not None
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PL_TRAINER_ENABLE_PROGRESS_BAR": "False"}
    for code in (script, script.replace("model = Digits()", found[1])):
        (folder / "first_run.py").write_text(code, encoding="utf-8")
        subprocess.run([sys.executable, "first_run.py"], cwd=folder, env=environment, check=True, capture_output=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", _PAGES)
def test_the_code_of_a_page_runs_as_printed(
    name: str, two_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, names = ROOT / name, _names()
    if name != _FIRST_RUN:
        shutil.copytree(two_runs, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a Trainer's advice about workers and intervals
        for block in _runnable(page.read_text(encoding="utf-8")):
            if block.language == "python":
                _run_python(block, page, names)
            else:
                _run_console(block, capsys)


def test_a_block_that_is_not_run_says_why() -> None:
    for page in english_pages():
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<!-- not run: *-->", text), page
