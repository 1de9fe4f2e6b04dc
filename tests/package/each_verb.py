"""Every verb works, or says what it lacks, in the environment that runs this script.

``python each_verb.py RUNS [ABSENT ...]`` with a directory of runs that a real MindSpore wrote and
the modules that this environment must not have; standard library only. ``nox -s package`` starts it
with the wheel that was built.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

_MINDSUMMARY = str(Path(sysconfig.get_path("scripts")) / "mindsummary")
_DRAWN_WITHIN_S = 10.0
_CHROMIUM = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--virtual-time-budget=5000",
    "--dump-dom",
)


def main(runs: str, *absent: str) -> None:
    """Try everything."""
    for name in absent:
        assert importlib.util.find_spec(name) is None, f"{name} is installed here"
    run = next(path for path in sorted(Path(runs).iterdir()) if path.is_dir())
    with tempfile.TemporaryDirectory() as folder:
        _try_verbs(runs, run, Path(folder))
    _read(run)
    _view(runs, run)  # which fetches the front end, unless it is in the cache
    seconds = _view(runs, run)
    assert seconds < _DRAWN_WITHIN_S, seconds


def _try_verbs(runs: str, run: Path, folder: Path) -> None:
    board = folder / "board"
    board.mkdir()
    (board / "events.out.tfevents.1700000000.host").touch()
    summary = next(str(path) for path in sorted(run.iterdir()) if path.name.endswith("_MS"))
    extras = {
        name: f"pip install {name}"
        for name in ("pyarrow", "tensorboard", "bokeh", "matplotlib", "fsspec")
    }
    trains = dict.fromkeys(
        ("torch", "lightning"), "install it with: pip install mindsummary-lightning"
    )
    plot = ("--module", "networks:digits", "--plot", str(folder / "landscape.png"))
    tried: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        (("list", runs), ()),
        (("show", str(run)), ()),
        (("dump", summary), ()),
        (("lineage", runs), ()),
        (("verify", runs), ()),
        (("repair", str(shutil.copytree(run, folder / "copy"))), ()),
        (("export", str(run), "--to", "csv", "--out", f"{folder}/csv"), ()),
        (("export", str(run), "--to", "npy", "--out", f"{folder}/npy"), ()),
        (("export", str(run), "--to", "parquet", "--out", f"{folder}/parquet"), ("pyarrow",)),
        (
            ("export", str(run), "--to", "tensorboard", "--out", f"{folder}/tensorboard"),
            ("tensorboard",),
        ),
        (("import", str(board), "--out", f"{folder}/imported"), ("tensorboard",)),
        (("sync", runs, f"{folder}/copies"), ("fsspec",)),
        (("report", str(run), "-o", f"{folder}/report.html"), ("bokeh",)),
        (("landscape", str(run), *plot), ("torch", "lightning", "matplotlib")),
        (("doctor",), ()),
    ]
    for words, needs in tried:
        missing = [name for name in needs if importlib.util.find_spec(name) is None]
        done = subprocess.run([_MINDSUMMARY, *words], capture_output=True, text=True)
        if missing:
            assert done.returncode == 1, (words, done)
            assert done.stderr.count("\n") == 1, (words, done)
            assert any({**extras, **trains}[name] in done.stderr for name in missing), (words, done)
        elif words[0] != "landscape":  # that would compute one
            assert done.returncode == 0, (words, done)
        print(
            f"{' '.join(words)[:40]:40}  "
            f"{(done.stdout or done.stderr or '-').splitlines()[0][:100]}"
        )


def _read(run: Path) -> None:
    from mindsummary_lightning import SummaryReader

    reader = SummaryReader(str(run))
    tags = reader.tags()
    assert all(len(reader.scalars(tag).steps) for tag in tags["scalar"])
    assert all(image.encoded for tag in tags["image"] for _, _, image in reader.images(tag))
    assert reader.lineage().train is not None


def _view(runs: str, run: Path) -> float:
    """Seconds from the start of ``view`` until a browser has drawn the list of runs."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    started = time.monotonic()
    command = [_MINDSUMMARY, "view", runs, "--no-browser", "--port", "0"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        tempfile.TemporaryDirectory() as user,
    ):
        assert process.stdout is not None
        try:
            printed = "".join(
                itertools.takewhile(lambda line: not line.startswith("Ctrl-C"), process.stdout)
            )
            # none where the front end is missing
            (address,) = re.findall(r"http\S+#/summary-manage", printed)
            assert browser is not None, "no chromium here to draw the page"
            draw = [browser, f"--user-data-dir={user}", *_CHROMIUM, address]
            page = subprocess.run(
                draw, check=True, capture_output=True, text=True, timeout=60
            ).stdout
            seconds = time.monotonic() - started
            assert run.name in page, page[-3000:]
            print(f"view: the list of runs is drawn after {seconds:.1f} s")
            return seconds
        finally:
            process.terminate()


if __name__ == "__main__":
    main(*sys.argv[1:])
