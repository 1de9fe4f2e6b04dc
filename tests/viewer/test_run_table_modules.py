"""The modules of the table of runs, each tested by node; that they are one file for the browser."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mindsummary_lightning.viewer import frontend

_FOLDER = Path(frontend.__file__).parent / "static" / "table"
_TESTS = sorted((Path(__file__).parent / "js").glob("*.test.js"))


@pytest.mark.slow
def test_modules_do_what_their_tests_say() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on the PATH (Debian: apt-get install nodejs)")

    done = subprocess.run(
        [node, "--test", *map(str, _TESTS)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_is_in_the_one_file_that_a_browser_asks_for() -> None:
    served = frontend.own_files()["/runs.js"].content().decode()

    assert sorted(f"{name}.js" for name in frontend.RUN_TABLE_MODULES) == sorted(
        path.name for path in _FOLDER.iterdir()
    )
    for path in _FOLDER.iterdir():
        lines = path.read_text(encoding="utf-8").splitlines()
        code = [line.strip() for line in lines if not line.lstrip().startswith("//")]
        assert "\n".join(code) in served
