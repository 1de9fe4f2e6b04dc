"""Everything that works without PyTorch and Lightning, tried in the environment that runs this script.

``python look_only.py RUNS`` with a directory of runs that a real MindSpore wrote; standard library only. Started by
``nox -s package`` with the wheel that was built and the packages that docs/install.md names.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

_MINDSUMMARY = str(Path(sysconfig.get_path("scripts")) / "mindsummary")


def main(runs: str) -> None:
    for name in ("torch", "lightning", "pytorch_lightning"):
        assert importlib.util.find_spec(name) is None, f"{name} is installed here"
    run = str(next(path for path in sorted(Path(runs).iterdir()) if path.is_dir()))
    with tempfile.TemporaryDirectory() as folder:
        for words in (
            ("list", runs),
            ("show", run),
            ("lineage", runs),
            ("verify", runs),
            ("export", run, "--to", "csv", "--out", f"{folder}/csv"),
            ("export", run, "--to", "npy", "--out", f"{folder}/npy"),
            ("report", run, "-o", f"{folder}/report.html"),
            ("doctor",),
        ):
            print(_mindsummary(*words).splitlines()[0][:100])
    _read(run)
    _view(runs)


def _mindsummary(*words: str) -> str:
    done = subprocess.run([_MINDSUMMARY, *words], capture_output=True, text=True)
    assert done.returncode == 0, f"mindsummary {' '.join(words)} ended with {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout or done.stderr or "-"


def _read(run: str) -> None:
    from mindsummary_lightning import SummaryReader

    reader = SummaryReader(run)
    assert all(len(reader.scalars(tag).steps) for tag in reader.tags()["scalar"])


def _view(runs: str) -> None:
    started = time.monotonic()
    command = [_MINDSUMMARY, "view", runs, "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = next(filter(None, (re.search(r"http\S+\?access=\S+", line) for line in process.stdout)))
            address = found[0].split("#")[0]
            server = address.split("?")[0]
            cookies = urllib.request.HTTPCookieProcessor(CookieJar())
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)
            opener.open(address).close()
            page = opener.open(server).read().decode()
            for part in re.findall(r'(?:src|href)="(static/[^"]+)"', page):
                assert opener.open(server + part).read()
            jobs = json.load(opener.open(f"{server}v1/mindinsight/datavisual/train-jobs?limit=20&offset=0"))
            assert jobs["total"] >= 2, jobs
            print(f"view: first page and list after {time.monotonic() - started:.1f} s, the download included")
        finally:
            process.terminate()
    assert process.returncode == 0 or sys.platform == "win32", process.returncode  # Windows terminates at once


if __name__ == "__main__":
    main(sys.argv[1])
