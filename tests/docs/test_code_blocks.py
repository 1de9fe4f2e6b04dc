"""The code of the pages runs as it stands there, in a directory where a reader of docs/first-run.md has trained twice.

What a page needs beyond that, it makes in a block of its own. ``nox -s guides`` does the same with an installed package
outside of the checkout.
"""

from __future__ import annotations

import glob
import re
import shlex
import shutil
import sys
import warnings
from pathlib import Path

import pytest

from mindsummary_lightning.cli import main
from tests.docs.page_code import FIRST_RUN, pages_with_code, run_page, shell, train_first_run
from tests.docs.pages import english_pages


@pytest.fixture(autouse=True)
def _quiet_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PL_TRAINER_ENABLE_PROGRESS_BAR", "False")
    monkeypatch.setenv("PL_TRAINER_ACCELERATOR", "'cpu'")
    monkeypatch.setenv("MPLBACKEND", "Agg")


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is there after the first run's page: its script, and the runs that sections 2 and 5 leave."""
    folder = tmp_path_factory.mktemp("first_run")
    train_first_run(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", pages_with_code())
def test_the_code_of_a_page_runs_as_printed(
    name: str, two_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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
