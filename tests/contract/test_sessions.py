"""All that can be run is run by something: by a command of CONTRIBUTING.md, by another session, or
once a week.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# the edit loop, its questions, and what checks compare with
_BY_HAND = {"quick", "mutants", "protos", "lock"}


def test_every_session_is_run_by_something() -> None:
    source = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    decorators = {
        function.name: " ".join(map(ast.unparse, function.decorator_list))
        for function in ast.parse(source).body
        if isinstance(function, ast.FunctionDef)
    }
    sessions = {name: text for name, text in decorators.items() if "nox.session" in text}
    default = {name for name, text in sessions.items() if "default=False" not in text}
    judges = set(
        ast.literal_eval(
            source.partition("\nJUDGES = ")[2].partition("\n)")[0].partition("\n")[2].join("()")
        )
    )
    weekly = {line.split()[0] for line in _weekly()}
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    assert 'for command in "nox" "nox -s judges"' in ci
    assert "export REQUIRE_JUDGES=1 LOCKED=1" in ci
    assert sessions.keys() == default | judges | weekly | {"judges"} | _BY_HAND


def test_the_long_form_of_every_test_is_run_once_a_week() -> None:
    full = [line.split() for line in _weekly() if line.endswith(" --full")]
    rooms = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    apart = {
        word
        for name, *words in full
        if name == "tests"
        for word in words
        if word.startswith("tests/")
    }
    left = {word for name, *words in full for word in words if word.startswith("--ignore=")}

    assert left == {f"--ignore={path}" for path in apart}
    assert all(path.partition("/")[2] in rooms for path in apart)
    assert {name for name, *_ in full} == {"tests", "mindinsight", "parity", "protobuf_matrix"}


def test_every_benchmark_is_run_once_a_week() -> None:
    source = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    scripts = {path.name for path in (ROOT / "benchmarks").glob("[a-z]*.py")}
    apart = set(ast.literal_eval(source.partition("    apart = ")[2].partition("\n")[0]))
    named = {
        Path(word).name
        for line in _weekly()
        if line.startswith("bench -- ")
        for word in line.split()[2:]
    }

    assert "bench" in _weekly()
    assert apart <= scripts
    for part in apart - named:  # what another one starts or imports
        others = (
            path.read_text(encoding="utf-8")
            for path in (ROOT / "benchmarks").glob("*.py")
            if path.name != part
        )
        assert any(Path(part).stem in source for source in others), part


def test_the_pythons_that_are_stated_are_those_that_are_run() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    checks = (ROOT / ".github" / "workflows" / "checks.yml").read_text(encoding="utf-8")
    stated = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    first_minor, below_last = map(
        int, re.findall(r"range\((\d+), (\d+), -1\)\]  # newest first", noxfile)[0]
    )
    (matrix,) = re.findall(r"python: \[(.*)\]", checks)

    assert re.findall(r'"([\d.]+)"', matrix) == stated
    assert [f"3.{minor}" for minor in range(below_last + 1, first_minor + 1)] == stated
    assert f'requires-python = ">={stated[0]}"' in project


def test_the_only_system_that_is_stated_is_the_one_that_all_checks_are_run_on() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    assert re.findall(r'"Operating System :: (.*)"', project) == ["POSIX :: Linux"]


def _weekly() -> list[str]:
    workflow = (ROOT / ".github" / "workflows" / "weekly.yml").read_text(encoding="utf-8")
    return [
        line.removeprefix("          - ")
        for line in workflow.splitlines()
        if line.startswith("          - ")
    ]
