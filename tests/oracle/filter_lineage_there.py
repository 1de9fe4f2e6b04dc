"""Answer search conditions with MindInsight's own ``filter_summary_lineage``, in MindInsight's
environment.

``python filter_lineage_there.py BASE_DIR CONDITIONS.pickle ANSWERS.json``: each answer is
``{"result": ...}`` or ``{"refused": name of the error}``. The tree is read once and kept for all
conditions, as MindInsight's server keeps it.
"""

from __future__ import annotations

import functools
import json
import logging
import pickle
import sys
from pathlib import Path
from typing import Any

from mindinsight.lineagemgr import model


def answer(base_dir: str, condition: Any) -> dict[str, Any]:
    try:
        return {
            "result": model.filter_summary_lineage(
                summary_base_dir=base_dir, search_condition=condition
            )
        }
    except Exception as error:  # some refusals are TypeErrors from within
        return {"refused": type(error).__name__}


def main() -> None:
    base_dir, conditions, answers = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    model.LineageOrganizer = functools.lru_cache(model.LineageOrganizer)
    with open(conditions, "rb") as file:
        asked = pickle.load(file)  # the file is our own; JSON has no tuples
    Path(answers).write_text(
        json.dumps([answer(base_dir, condition) for condition in asked]), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
