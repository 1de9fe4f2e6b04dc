"""The code of the pages runs as it stands there, in a directory where a reader of docs/first-run.md
has trained twice.

What a page needs beyond that, it makes in a block of its own. ``nox -s guides`` does the same with
an installed package outside of the checkout.
"""

from __future__ import annotations

import glob
import re
import runpy
import shlex
import shutil
import sys
import warnings
from pathlib import Path

import pytest

from mindsummary_lightning.cli import main
from tests.docs.page_code import FIRST_RUN, pages_with_code, run_page, shell, train_first_run
from tests.docs.pages import ROOT, blocks, english_pages


@pytest.fixture(autouse=True)
def _quiet_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PL_TRAINER_ENABLE_PROGRESS_BAR", "False")
    monkeypatch.setenv("PL_TRAINER_ACCELERATOR", "'cpu'")
    monkeypatch.setenv("MPLBACKEND", "Agg")


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is there after the first run's page: its script, and the runs that sections 2 and 5
    leave.
    """
    folder = tmp_path_factory.mktemp("first_run")

    def run_here(script: Path) -> None:  # in this process, which has imported everything
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("PL_TRAINER_ENABLE_PROGRESS_BAR", "False")
            runpy.run_path(str(script), run_name="__main__")

    train_first_run(folder, run_here)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", pages_with_code())
def test_the_code_of_a_page_runs_as_printed(
    name: str,
    two_runs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if name == "docs/recipes.md" and sys.version_info >= (3, 14):
        pytest.skip(
            "Hydra 1.3 does not start on Python 3.14: argparse looks at help texts now, "
            "which Hydra makes late"
        )

    def command(line: str) -> str:  # in this process, which has imported everything
        capsys.readouterr()
        words = [word for text in shlex.split(line) for word in (sorted(glob.glob(text)) or [text])]
        if words[0] != "mindsummary" or {"|", ">"} & set(words):
            return shell(line)
        main(words[1:])
        answer = capsys.readouterr()
        return answer.out + answer.err

    if name != FIRST_RUN:
        shutil.copytree(two_runs, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "first_run", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a Trainer's advice about workers and intervals
        run_page(name, command)


def test_a_block_that_is_not_run_says_why() -> None:
    for page in english_pages():
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<!-- not run: *-->", text), page


FIRST_BLOCKS = ("README.md", "README_CN.md", "docs/index.md", "docs/zh/index.md")


def _first_block(name: str) -> str:
    return blocks((ROOT / name).read_text(encoding="utf-8"))[0].code


@pytest.mark.slow
def test_the_first_block_is_short_the_same_on_all_pages_and_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mindsummary_lightning import SummaryReader

    codes = {_first_block(name) for name in FIRST_BLOCKS}
    assert len(codes) == 1
    assert len(codes.copy().pop().splitlines()) <= 15

    monkeypatch.chdir(tmp_path)
    exec(compile(codes.pop(), "README.md", "exec"), {"__name__": "__main__"})

    curves = SummaryReader("runs/lightning_logs/version_0").all_scalars()
    assert curves["loss/auto"].values[-5:].mean() < 0.5 * curves["loss/auto"].values[0]
    assert curves["accuracy"].values[-5:].mean() > 0.9


def test_old_runs_need_what_the_guide_installs() -> None:
    guide = (
        (ROOT / "docs/install.md")
        .read_text(encoding="utf-8")
        .partition("## Install only the viewer")[2]
    )
    needs, _, install = re.findall(r"^    (python -m pip install .*)$", guide, re.MULTILINE)

    for name in ("README.md", "README_CN.md"):
        commands = re.findall(
            r"^    (\S.*)$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE
        )
        start = commands.index(needs)
        assert commands[start + 1 : start + 3] == [install, "mindsummary view path/to/your/runs"]
