"""Serve the viewer until standard input ends; print the port, and at the end the paths that were
opened or listed.

In a process of its own, because an audit hook cannot be removed.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from mindsummary_lightning.viewer.access import Access
from mindsummary_lightning.viewer.app import create_app
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.faults.processes import ROOT
from tests.viewer.serving import serving
from tests.viewer.small_frontend import SMALL_WHEEL


def main(runs: str, folder: str, token: str) -> None:
    opened: list[str] = []

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | bytes):
            opened.append(os.fsdecode(arguments[0]))

    # imports would list the checkout
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) != str(ROOT)]
    app = create_app(LoadedRuns(runs), SMALL_WHEEL, Access(token))
    with serving(app) as port:
        sys.addaudithook(note)
        print(port, flush=True)
        sys.stdin.read()
        paths = list(opened)
    print(json.dumps(paths))


if __name__ == "__main__":
    main(*sys.argv[1:])
