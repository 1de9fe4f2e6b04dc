"""The files of a run by their names, and the order in which they are copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindsummary_lightning.reading.run_directory import (
    files_by_run,
    files_size,
    lineage_file_paths,
    local_path,
    summary_files,
)

_FILES = (
    "events.out.events.summary.{}.0.h_MS",
    "events.out.events.summary.{}.0.h_lineage",
    "events.out.events.summary.{}.0.h_explain",
)


def test_the_files_of_a_run_are_those_of_their_kind_in_the_order_of_the_reader(
    tmp_path: Path,
) -> None:
    for size, second in ((1, 300), (20, 99), (300, 1000)):
        for number, name in enumerate(_FILES):
            (tmp_path / name.format(second)).write_bytes(bytes(size * (1 + number)))
    (tmp_path / "notes.txt").write_text("not counted")
    (tmp_path / _FILES[0].format(5)).mkdir()
    (tmp_path / _FILES[1].format(6)).symlink_to(tmp_path / _FILES[1].format(300))

    for kind, found in enumerate((summary_files, lineage_file_paths)):
        assert found(str(tmp_path)) == [
            str(tmp_path / _FILES[kind].format(second)) for second in (99, 300, 1000)
        ]
    assert files_size(str(tmp_path)) == 321 + 2 * 321
    assert files_size(str(tmp_path / "nowhere")) == 0


def test_a_path_is_text_without_the_scheme_of_local_files(tmp_path: Path) -> None:
    assert local_path("run_dir", tmp_path) == str(tmp_path)
    assert local_path("run_dir", f"file://{tmp_path}") == str(tmp_path)
    assert local_path("run_dir", "a:b/c d") == "a:b/c d"
    with pytest.raises(NotADirectoryError, match="mindsummary sync s3://bucket/run runs"):
        local_path("run_dir", "s3:/bucket/run")
    with pytest.raises(TypeError, match="run_dir must be a path, not 5"):
        local_path("run_dir", 5)


def test_files_are_copied_by_run_and_what_a_file_lists_before_that_file() -> None:
    small, large = 16 << 20, (16 << 20) + 1
    first, second = (f"a/{_FILES[0].format(second)}" for second in (99, 1000))
    older, newer = (f"a/{_FILES[1].format(second)}" for second in (98, 99))
    inner = f"a/b/{_FILES[0].format(7)}"
    copied = [
        *(first, second, "a/model.bin", "a/export_tables/t.csv", "a/ckpt_dir/deep/last.ckpt"),
        *("a/ckpt_dir/best.ckpt", older, newer, "a/notes.txt", "a/names.json"),
    ]
    sizes = {
        **dict.fromkeys(sorted(copied), small),
        **dict.fromkeys((second, copied[3], copied[4], newer), large),
        first: 0,
        **dict.fromkeys(
            ("a/large.json", "a/large.bin", "a/other/large.ckpt", "a/x.ckpt_dir"), large
        ),
        **dict.fromkeys(("a/other/small.ckpt", inner, "a/b/hparams.yaml", "c/notes.txt"), 3),
        **dict.fromkeys(("a/link.txt", f"linked/{_FILES[0].format(7)}"), -1),
        **{f"{folder}/{_FILES[0].format(7)}": 1 for folder in (".hidden", ".hidden/deeper")},
        _FILES[0].format(5): 1,
    }

    assert files_by_run(sizes) == {
        "a": copied,
        "a/b": [inner, "a/b/hparams.yaml"],
        ".hidden": [f".hidden/{_FILES[0].format(7)}"],
        "": [_FILES[0].format(5)],
    }
