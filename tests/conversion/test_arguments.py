"""The checks that all public functions share: what each takes, up to its limits, and its words for
everything else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from mindsummary_lightning.conversion.arguments import (
    check_export_options,
    checked_bool,
    checked_directory,
    checked_name,
    checked_path,
    checked_version,
    drops_num_process,
    file_permissions,
    int64,
    max_file_bytes,
    natural_int,
    optional_module,
    optional_positive_int,
    optional_seconds,
    positive_int,
    recorded_steps,
    refuse_remote,
)
from mindsummary_lightning.errors import RemotePathError

_NET = nn.Linear(2, 3)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        *[(lambda value: checked_bool("x", value), value) for value in (True, False)],
        *[(lambda value: positive_int("x", value), value) for value in (1, 2, 10**30)],
        *[(checked_version, value) for value in (None, "", "v1", 0, 1, 10**30)],
        *[(lambda value: optional_positive_int("x", value), value) for value in (None, 1, 10**30)],
        *[(max_file_bytes, value) for value in (None, 1, 10**30)],
        *[(lambda value: natural_int("x", value), value) for value in (0, 1, 10**30)],
        *[(lambda value: int64("x", value), value) for value in (-(2**63), 0, 2**63 - 1)],
        *[(lambda value: optional_seconds("x", value), value) for value in (None, 1e-9, 1, 2.5)],
        *[(lambda value: optional_module("x", value), value) for value in (None, _NET)],
        *[(file_permissions, value) for value in (0o600, 0o640, 0o666, 0o777)],
        *[(lambda value: checked_name(value), value) for value in ("a", " ", "损失")],
    ],
)
def test_a_value_within_the_limits_is_returned_as_it_is(
    check: Callable[[Any], Any], value: Any
) -> None:
    assert check(value) == value
    assert type(check(value)) is type(value)


@pytest.mark.parametrize(
    ("check", "value", "error"),
    [
        (lambda value: checked_bool("x", value), 1, "x must be a bool, not 1"),
        (lambda value: checked_bool("x", value), None, "x must be a bool, not None"),
        (lambda value: positive_int("x", value), 1.0, "x must be an int, not 1.0"),
        (lambda value: positive_int("x", value), True, "x must be an int, not True"),
        (checked_version, 1.5, "version must be an int, a str or None, not 1.5"),
        (checked_version, False, "version must be an int, a str or None, not False"),
        (lambda value: optional_positive_int("x", value), "1", "x must be an int or None, not '1'"),
        (max_file_bytes, 1.0, "max_file_size must be an int of bytes or None, not 1.0"),
        (lambda value: natural_int("x", value), None, "x must be an int, not None"),
        (lambda value: int64("x", value), True, "x must be an int, not True"),
        (
            lambda value: optional_seconds("x", value),
            "1",
            "x must be a number of seconds or None, not '1'",
        ),
        (
            lambda value: optional_seconds("x", value),
            True,
            "x must be a number of seconds or None, not True",
        ),
        (
            lambda value: optional_module("x", value),
            len,
            "x must be a torch.nn.Module or None, not <built-in function len>",
        ),
        (file_permissions, "rw-", "file_mode must be an int such as 0o640, or its text, not 'rw-'"),
        (file_permissions, "0o", "file_mode must be an int such as 0o640, or its text, not '0o'"),
        (
            file_permissions,
            "0640x",
            "file_mode must be an int such as 0o640, or its text, not '0640x'",
        ),
        (lambda value: checked_name(value), b"a", "name must be a str, not b'a'"),
        (lambda value: checked_name(value, "a tag"), 3, "a tag must be a str, not 3"),
        (recorded_steps, "12", "steps must be an int or a sequence of them, not '12'"),
        (recorded_steps, True, "steps must be an int or a sequence of them, not True"),
        (recorded_steps, [1, 2.0], "a step must be an int, not 2.0"),
    ],
)
def test_a_value_of_another_type_is_refused(
    check: Callable[[Any], Any], value: Any, error: str
) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(error)}$"):
        check(value)


@pytest.mark.parametrize(
    ("check", "value", "error"),
    [
        (lambda value: positive_int("x", value), 0, "x must be at least 1, not 0"),
        (checked_version, -1, "version must be 0 or more, not -1"),
        (lambda value: optional_positive_int("x", value), 0, "x must be at least 1, not 0"),
        (
            max_file_bytes,
            0,
            "max_file_size must be at least 1 byte, or None for no limit, not 0",
        ),
        (lambda value: natural_int("x", value), -1, "x must be 0 or more, not -1"),
        *[
            (
                lambda value: int64("x", value),
                value,
                f"x must be in the range of 64 bits, not {value}",
            )
            for value in (2**63, -(2**63) - 1)
        ],
        *[
            (
                lambda value: optional_seconds("x", value),
                value,
                f"x must be above 0, or None for no fsync, not {value}",
            )
            for value in (0, -0.5, float("nan"))
        ],
        (lambda value: checked_name(value), "", "name must not be empty"),
        (lambda value: checked_name(value, "a tag"), "", "a tag must not be empty"),
        (recorded_steps, [], "steps must name at least one step, not []"),
        (recorded_steps, range(0), "steps must name at least one step, not range(0, 0)"),
        (recorded_steps, 0, "steps must be at least 1, not 0"),
        (recorded_steps, [3, 0], "a step must be at least 1, not 0"),
    ],
)
def test_a_value_beyond_a_limit_is_refused(
    check: Callable[[Any], Any], value: Any, error: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        check(value)


@pytest.mark.parametrize(
    ("steps", "numbers"),
    [(1, {1}), (3, {1, 2, 3}), ([4], {4}), ((7, 2, 2), {2, 7}), (range(5, 10, 2), {5, 7, 9})],
)
def test_a_number_means_the_first_steps_and_a_sequence_names_them(
    steps: Any, numbers: set[int]
) -> None:
    assert recorded_steps(steps) == numbers


@pytest.mark.parametrize(
    ("text", "mode"), [("640", 0o640), ("0640", 0o640), ("0o777", 0o777), ("600", 0o600)]
)
def test_permissions_may_be_octal_text(text: str, mode: int) -> None:
    assert file_permissions(text) == mode


@pytest.mark.parametrize(
    ("mode", "shown"),
    [
        (0o577, "0o577"),
        (0o1000, "0o1000"),
        (0o1777, "0o1777"),
        (0o477, "0o477"),
        (640, "640, which is decimal; write 0o640"),
        (777, "777, which is decimal; write 0o777"),
        (644, "644, which is decimal; write 0o644"),
        (5640, "0o13010"),
        (-1, "-0o1"),
        ("577", "0o577"),
    ],
)
def test_permissions_without_the_owner_or_beyond_nine_bits_are_refused(
    mode: Any, shown: str
) -> None:
    message = f"file_mode must be 0o600..0o777 and let the owner read and write, not {shown}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        file_permissions(mode)


@pytest.mark.parametrize("name", ["forward", "named_modules"])
def test_an_object_with_half_of_a_module_is_none(name: str) -> None:
    half = type("Half", (), {name: None})()

    with pytest.raises(TypeError, match=r"x must be a torch\.nn\.Module or None, not <"):
        optional_module("x", half)


def test_a_name_is_what_utf8_holds() -> None:
    assert checked_name("a\ud800") == "a\\ud800"


def test_a_path_is_local_and_its_short_forms_are_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("RUNS", "/data/runs")

    paths = ["a/b", Path("a/b"), "", "~/a", "$RUNS/a", "~/${RUNS}", "file:///a/b", "~other$NONE"]
    assert [checked_path("x", path) for path in paths] == [
        "a/b",
        "a/b",
        ".",
        "/home/me/a",
        "/data/runs/a",
        "/home/me//data/runs",
        "/a/b",
        "~other$NONE",
    ]


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        (5, TypeError, "x must be a path, not 5"),
        (b"a", TypeError, "x must be a path, not b'a'"),
        ("a\0b", ValueError, r"x must be a str path without a NUL character, not 'a\x00b'"),
    ],
)
def test_what_is_no_path_is_refused(path: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        checked_path("x", path)


def test_a_path_of_bytes_is_refused() -> None:
    class OfBytes(os.PathLike[bytes]):
        def __fspath__(self) -> bytes:
            return b"a"

    with pytest.raises(ValueError, match="x must be a str path without a NUL character, not b'a'"):
        checked_path("x", OfBytes())


def test_a_remote_path_is_refused_with_the_two_lines_that_copy_and_without_secrets() -> None:
    with pytest.raises(RemotePathError) as refusal:
        checked_path("log_dir", Path("s3://me:word@bucket/run"))

    assert str(refusal.value) == (
        "log_dir must be a local path, not 's3:/***@bucket/run': files are appended to and "
        "renamed, which remote stores do not support. Write to a local directory and copy it "
        'afterwards, or mount the store. To copy while the program runs, pass log_dir="runs" in '
        "the program, and in a second shell run: mindsummary sync runs s3://***@bucket/run --follow"
    )
    refuse_remote("log_dir", "/a/b")


def test_a_directory_is_absolute_and_need_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()

    assert [checked_directory("x", path) for path in ("there", "new/a", Path("there/.."))] == [
        str(tmp_path / "there"),
        str(tmp_path / "new" / "a"),
        str(tmp_path),
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    with pytest.raises(ValueError, match="x must be a path that is not empty, not ''"):
        checked_directory("x", "")


@pytest.mark.parametrize("below", ["", "a", "a/b"])
def test_a_file_where_a_directory_or_its_parent_should_be_is_named(
    tmp_path: Path, below: str
) -> None:
    (tmp_path / "file").write_text("x")
    asked = str(tmp_path / "file" / below) if below else str(tmp_path / "file")

    with pytest.raises(NotADirectoryError) as refusal:
        checked_directory("x", asked)
    assert str(refusal.value) == (
        f"{tmp_path / 'file'} is not a directory, so nothing can be recorded in {asked}; "
        "give another directory"
    )


def test_a_link_that_leads_nowhere_is_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")

    with pytest.raises(NotADirectoryError, match="link is not a directory"):
        checked_directory("x", tmp_path / "link" / "run")


@pytest.mark.parametrize(
    ("options", "is_npy"),
    [
        (None, False),
        ({}, False),
        ({"tensor_format": None}, False),
        ({"tensor_format": "npy"}, True),
    ],
)
def test_export_options_ask_for_npy_files_or_not(options: Any, is_npy: bool) -> None:
    assert check_export_options(options) is is_npy


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ("npy", TypeError, "export_options must be a dict or None, not 'npy'"),
        ({"tensor_format": "npy", 1: "a"}, TypeError, "keys of export_options must be str, not "),
        (
            {"tensor_format": 1},
            TypeError,
            "values of export_options must be str or None, not [1]",
        ),
        (
            {"tensor_format": "npy", "b": "c", "a": None},
            ValueError,
            "the key of export_options must be 'tensor_format', not 'a', 'b'",
        ),
        (
            {"tensor_format": "npz"},
            ValueError,
            "tensor_format of export_options must be 'npy' or None, not 'npz'",
        ),
    ],
)
def test_export_options_of_another_form_are_refused(
    options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        check_export_options(options)


class _Recorder:
    @drops_num_process(position=2)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.given = args, kwargs


@pytest.mark.parametrize(
    ("args", "kwargs", "given"),
    [
        (("dir", 32, "x", 8), {"a": 1}, (("dir", "x", 8), {"a": 1})),
        (("dir", None, 32), {}, (("dir", None, 32), {})),
        (("dir", True), {}, (("dir", True), {})),
        ((32,), {"num_process": 32, "b": 2}, ((32,), {"b": 2})),
        (("dir", 32), {}, (("dir",), {})),
        ((), {"num_process": None}, ((), {})),
    ],
)
def test_the_number_of_mindspores_processes_is_dropped_and_nothing_else(
    args: tuple[Any, ...], kwargs: dict[str, Any], given: Any
) -> None:
    assert _Recorder(*args, **kwargs).given == given
