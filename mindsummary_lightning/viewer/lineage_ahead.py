"""Lineage of many runs, read in a thread of its own before a page asks for it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mindsummary_lightning.viewer.loaded_runs import LoadedRuns


def read_lineage(runs: LoadedRuns) -> None:
    """Read all lineage before a page asks for it, and make the rows of the table; wait while a page reads lineage."""
    # Here: pages are served before protobuf and NumPy are loaded.
    from mindsummary_lightning.lineage.search import CACHE, READING
    from mindsummary_lightning.viewer.api import ApiRequest
    from mindsummary_lightning.viewer.pages.run_table import run_table

    gc.disable()  # it would look at everything that was read, again and again
    try:
        for directory in runs.run_directories():
            if READING.locked():
                with READING:
                    pass
            CACHE.lineage(directory.path, directory.files)
        runs.scan_again()  # of thousands of runs this took seconds: the directories need not be listed at the next look
        while run_table(runs, ApiRequest())["unread"]:
            pass
    finally:
        gc.freeze()  # what was read stays until the end
        gc.enable()
