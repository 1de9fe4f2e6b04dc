"""Every session of noxfile.py is run by something: by a command of CONTRIBUTING.md, by another one, or once a week."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BY_HAND = {"quick", "mutants", "protos"}  # the edit loop, its questions, and what protos_check compares with


def test_every_session_is_run_by_something() -> None:
    source = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    sessions = {
        function.name
        for function in ast.parse(source).body
        if isinstance(function, ast.FunctionDef)
        and any("nox.session" in ast.unparse(decorator) for decorator in function.decorator_list)
    }
    default = set(ast.literal_eval(source.partition("nox.options.sessions = ")[2].partition("\n")[0]))
    judges = set(ast.literal_eval(source.partition("\nJUDGES = ")[2].partition("\n)")[0].partition("\n")[2].join("()")))
    workflow = (ROOT / ".github" / "workflows" / "weekly.yml").read_text(encoding="utf-8")
    weekly = {line.split()[1] for line in workflow.splitlines() if line.startswith("          - ")}
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    assert 'for command in "nox" "nox -s judges"' in ci
    assert "export REQUIRE_JUDGES=1" in ci
    assert sessions == default | judges | weekly | {"judges"} | _BY_HAND
