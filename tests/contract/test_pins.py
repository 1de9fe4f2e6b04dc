"""The set of versions under which MindInsight works is stated twice: the tests judge with what the viewer installs."""

from __future__ import annotations

import ast
from pathlib import Path

from mindsummary_lightning.mindinsight.environment import PINS


def test_the_judge_is_the_mindinsight_that_the_viewer_installs() -> None:
    tree = ast.parse((Path(__file__).parents[2] / "noxfile.py").read_text())
    stated = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }

    assert set(PINS) <= set(ast.literal_eval(stated["MINDINSIGHT"]))
