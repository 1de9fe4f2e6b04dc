"""A run has one name."""

from __future__ import annotations

from pathlib import Path

from mindsummary_lightning.reading.run_names import names_of_ids, run_names


def test_a_name_is_the_path_below_the_directory() -> None:
    assert run_names(["runs/a", "runs/sweep/b"], "runs") == {
        "runs/a": "a",
        "runs/sweep/b": "sweep/b",
    }
    assert names_of_ids(["./a", "./sweep/b"], "runs") == ["a", "sweep/b"]


def test_the_directory_itself_has_its_own_name_unless_another_run_has_it(tmp_path: Path) -> None:
    base = str(tmp_path / "runs")

    assert run_names([base], base) == {base: "runs"}
    assert run_names([base, f"{base}/runs"], base) == {base: ".", f"{base}/runs": "runs"}
    assert names_of_ids(["./", "./runs"], base) == [".", "runs"]
    assert names_of_ids(["./"], "/") == ["."]


def test_a_name_that_is_not_utf_8_is_written_with_escapes(tmp_path: Path) -> None:
    path = f"{tmp_path}/not \udcff"

    assert run_names([path], str(tmp_path)) == {path: r"not \udcff"}
