"""Runs the code of the pages, block after block, as a reader would who has followed
docs/first-run.md before.

    python -m tests.docs.page_code [PAGE ...]     # in an empty directory; without names every page

``python`` and ``console`` blocks run; with prompts (``>>>``, ``$``) they must print what is printed
there, where ``...`` stands for anything. A block that begins with ``# name.py`` or ``# name.yaml``
is saved as that file. ``<!-- not run: reason -->`` before a block keeps it from running. Needs the
standard library only.
"""

from __future__ import annotations

import ast
import doctest
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT, Block, blocks, english_pages

FIRST_RUN = "docs/first-run.md"
EXAMPLE_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
_SIZE = re.compile(r"\b\d+(?:\.\d)? MB\b")  # of files; it depends on versions and paths
_FILE = re.compile(r"# (\w+\.\w+)\n")


def run_page(name: str, command: Callable[[str], str]) -> None:
    """Run the blocks of a page in one namespace.

    Args:
        name: the page, seen from the root.
        command: runs a line of a ``console`` block and gives what it printed.

    Raises:
        AssertionError: a block printed something else than the page says.
    """
    page = ROOT / name
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in runnable(page.read_text(encoding="utf-8")):
        if saved := _FILE.match(block.code):
            Path(saved[1]).write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            _run_python(block, page, names)
        else:
            _run_console(block, command)


def runnable(text: str) -> Iterator[Block]:
    """The blocks that are run, and those that are saved."""
    for block in blocks(text):
        if block.mark != "not run" and (
            block.language in ("python", "console") or _FILE.match(block.code)
        ):
            yield block


def pages_with_code() -> list[str]:
    """The pages that have something to run, seen from the root."""
    texts = {
        page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
        for page in english_pages()
    }
    return [name for name, text in texts.items() if any(runnable(text))]


def run_script(path: Path) -> None:
    """Run a script in a process of its own, in its directory."""
    subprocess.run(
        [sys.executable, path.name], cwd=path.parent, check=True, stdout=subprocess.DEVNULL
    )


def train_first_run(folder: Path, run: Callable[[Path], object] = run_script) -> None:
    """Leave what docs/first-run.md leaves: its script, the run of section 2, and the changed one of
    section 5.
    """
    text = (ROOT / FIRST_RUN).read_text(encoding="utf-8")
    (script,) = (block.code for block in blocks(text) if block.language == "python")
    found = re.search(r"change the line `model = Digits\(\)` to `(model = .*?)`", text)
    assert found is not None
    for code in (script, script.replace("model = Digits()", found[1])):
        script_path = folder / "first_run.py"
        script_path.write_text(code, encoding="utf-8")
        run(script_path)


def shell(line: str) -> str:
    """Run a line in a shell; what it printed. A page may show a command that finds damage and exits
    with 1.
    """
    done = subprocess.run(line, shell=True, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr


def _run_python(block: Block, page: Path, names: dict[str, Any]) -> None:
    if ">>> " not in block.code:
        # an error names the page's line
        tree = ast.increment_lineno(ast.parse(block.code, str(page)), block.line - 1)
        exec(compile(tree, str(page), "exec"), names)
        return
    example = doctest.DocTestParser().get_doctest(
        block.code, names, page.name, str(page), block.line - 1
    )
    example.globs = names  # what one block imports, the next ones use
    printed: list[str] = []
    doctest.DocTestRunner(optionflags=EXAMPLE_FLAGS).run(
        example, out=printed.append, clear_globs=False
    )
    assert not printed, "".join(printed)


def _run_console(block: Block, command: Callable[[str], str]) -> None:
    for line, expected in re.findall(
        r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.code.replace("\\\n", ""), re.MULTILINE
    ):
        printed = command(line)
        wanted, got = _SIZE.sub("... MB", expected), _SIZE.sub("... MB", printed)
        same = doctest.OutputChecker().check_output(wanted, got, EXAMPLE_FLAGS)
        assert same, f"{line} prints\n{printed}\nbut the page says\n{expected}"


def main(names: list[str]) -> int:
    """Run pages, each in a process and a directory of its own; how many failed."""
    first_run, failed = Path("first-run").resolve(), 0
    first_run.mkdir()
    train_first_run(first_run)
    for name in names:
        folder = Path(name.replace("/", "-")).resolve()
        if name == FIRST_RUN:
            folder.mkdir()
        else:
            shutil.copytree(first_run, folder)
        code = f"from tests.docs import page_code; page_code.run_page({name!r}, page_code.shell)"
        # As at a prompt, the current directory comes first among those that modules are imported
        # from.
        is_done = (
            subprocess.run([sys.executable, "-c", code], cwd=folder, check=False).returncode == 0
        )
        print("ok    " if is_done else "FAILED", name, flush=True)
        failed += not is_done
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or pages_with_code()))
