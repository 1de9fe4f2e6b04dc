"""Where each module's tests are: ``tests/<package>/test_<module>.py``, or a test of the package
that imports it.

The table has the others: they are tested through another module, whose tests are named.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.contract.test_house import modules

_PROJECT = Path(__file__).parents[2]
_TESTS = _PROJECT / "tests"

# A module, or a folder of modules, and where it is tested; each below tests/.
_TESTED_IN = {
    "cli/": "cli/test_main.py",
    "dataset/sources": "dataset/test_pipeline.py",
    "errors": "test_errors.py",
    "export/tensorboard/messages": "export/test_tensorboard.py",
    "export/tensorboard/value_codec": "export/test_tensorboard.py",
    "graph/instruments": "graph/test_step_observer.py",
    "lineage/json_values": "lineage/test_merge.py",
    "mindspore": "porting/mindspore/test_step_recorder.py",
    "porting/chain/": "porting/chain/test_chain_collector.py",
    "porting/comparison/": "porting/comparison/test_verdict.py",
    "porting/mindspore/": "porting/mindspore/test_port_check.py",
    "porting/port_check/": "porting/port_check/test_check_port.py",
    "reading/series": "reading/test_summary_reader.py",
    "recording/duplicate_filter": "recording/test_event_writer.py",
    "recording/pending_values": "recording/test_summary_record.py",
    "trainer/checkpoint_callbacks": "trainer/test_lineage_callbacks.py",
    "trainer/checkpoint_state": "trainer/test_resume.py",
    "trainer/exception_checkpoints": "trainer/test_endings.py",
    "trainer/landscape_writer": "trainer/test_landscape_checkpoints.py",
    "trainer/logger": "trainer/test_logger_contract.py",
    "trainer/statistics_names": "trainer/test_parameter_statistics.py",
    "types": "contract/test_public_names.py",
    "values/data_types": "values/test_summary_values.py",
    "values/graph_nodes": "fileformat/test_graph_codec.py",
    "values/limits": "values/test_validation.py",
    "values/specified_data": "trainer/test_collector.py",
    "viewer/graph_view/recorded_nodes": "viewer/graph_view/test_layout.py",
    "warn_once": "test_warn_once.py",
}


def _modules() -> list[str]:
    """Modules with code of their own, as ``reading/thinning``."""
    names = [name.removesuffix(".py") for name, _ in modules()]
    return [name for name in names if not name.endswith(("__init__", "__main__"))]


@cache
def _imported_by(test: Path) -> frozenset[str]:
    """Modules of the package that a test imports, as ``reading/thinning``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    package = "mindsummary_lightning."
    return frozenset(
        name.removeprefix(package).replace(".", "/") for name in found if name.startswith(package)
    )


def _is_tested_in_its_package(module: str) -> bool:
    package, _, name = module.partition("/")
    tests = [*(_TESTS / package).rglob("test_*.py")]
    return any(
        test.stem == f"test_{Path(name).name}" or module in _imported_by(test) for test in tests
    )


def _is_in_the_table(module: str) -> bool:
    return module in _TESTED_IN or any(
        row.endswith("/") and module.startswith(row) for row in _TESTED_IN
    )


@pytest.mark.slow
def test_each_module_has_tests_in_its_package_or_a_row_of_the_table() -> None:
    assert [
        module
        for module in _modules()
        if not _is_tested_in_its_package(module) and not _is_in_the_table(module)
    ] == []


def test_each_row_of_the_table_names_a_module_and_a_test_that_are_there() -> None:
    found = _modules()

    assert [
        row
        for row in _TESTED_IN
        if not any(f"{name}/".startswith(f"{row.rstrip('/')}/") for name in found)
    ] == []
    assert [test for test in _TESTED_IN.values() if not (_TESTS / test).is_file()] == []


@pytest.mark.slow
def test_no_module_with_tests_of_its_own_has_a_row() -> None:
    rows = [row for row in _TESTED_IN if not row.endswith("/")]

    assert [row for row in rows if "/" in row and _is_tested_in_its_package(row)] == []
