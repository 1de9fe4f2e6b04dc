from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.errors import error_text
from mindsummary_lightning.values.text import (
    Phrase,
    counted,
    finite_or_named,
    listed,
    map_json,
    shortest_float32,
    utf8_json,
    without_secrets,
)


@pytest.mark.parametrize(
    "number", [0.1, 0.01, 1e-3, 3.14159, 1e20, -2.5e-7, 16777217.0, 3.4028235e38, 0.0]
)
def test_a_float32_is_the_decimal_that_a_person_wrote(number: float) -> None:
    assert shortest_float32(float(np.float32(number))) == float(str(np.float32(number)))


@given(st.floats(width=32, allow_subnormal=False, allow_nan=False))
def test_the_shortest_decimal_is_numpys_and_the_same_float32(number: float) -> None:
    short = shortest_float32(number)

    assert repr(short) == repr(float(str(np.float32(number))))
    assert np.float32(short) == np.float32(number)


def test_a_phrase_is_its_text_and_can_be_said_in_other_words() -> None:
    inner = Phrase("{} runs", 3)
    phrase = Phrase("{} of {}", inner, "{x}")
    words = {"{} runs": "runs: {}", "{} of {}": "{1}: {0}", "{": "a brace"}

    assert (phrase, phrase.template, phrase.values) == (
        "3 runs of {x}",
        "{} of {}",
        (inner, "{x}"),
    )
    assert phrase.said(words) == "{x}: runs: 3"
    assert phrase.said({}) == phrase
    assert (Phrase("{"), Phrase("{").said({}), Phrase("{").said(words)) == ("{", "{", "a brace")


def test_a_function_is_applied_to_every_leaf_and_key() -> None:
    value = {"a": (1, ["b", {"c": None}]), "d": {}}

    assert map_json(value, lambda leaf: [leaf] if leaf is None else f"<{leaf}>") == {
        "<a>": ["<1>", ["<b>", {"<c>": [None]}]],
        "<d>": {},
    }


@pytest.mark.parametrize(
    ("number", "short"),
    [
        (0.30000001192092896, 0.3),
        (1.0000001192092896, 1.0000001),
        (123456.7890625, 123456.79),
        (16777216.0, 16777216.0),
        (12.300714492797852, 12.3007145),
        (0.123456791043281555, 0.12345679),
        (1.401298464324817e-45, 1.4013e-45),
        (3.4028234663852886e38, 3.4028235e38),
    ],
)
def test_as_few_digits_as_tell_a_float32_apart_are_kept(number: float, short: float) -> None:
    assert shortest_float32(number) == short
    assert shortest_float32(-number) == -short


def test_what_is_not_finite_stays() -> None:
    assert math.isnan(shortest_float32(math.nan))
    assert shortest_float32(-math.inf) == -math.inf


def test_texts_of_json_are_escaped_wherever_they_are() -> None:
    parsed = {"\ud800": [1, "a\udfff", {"é": None}]}

    assert utf8_json(parsed) == {"\\ud800": [1, "a\\udfff", {"é": None}]}


def test_an_error_is_one_line_whatever_its_message_is() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemExit("no message")

    assert error_text(
        RuntimeError("CUDA error: assert\n  For debugging,\n\x1b[2J pass X=1.\n")
    ) == ("CUDA error: assert For debugging, \\u001b[2J pass X=1.")
    assert [error_text(error) for error in (Mute(), ValueError(), ValueError("\n"))] == [
        "Mute",
        *["ValueError"] * 2,
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (0.5, 0.5),
        (-1e308, -1e308),
        (10**400, 10**400),
        ("nan", "nan"),
        (None, None),
    ],
)
def test_a_float_that_is_not_finite_has_its_name_and_everything_else_stays(
    value: object, shown: object
) -> None:
    assert finite_or_named(value) == shown


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a, b"),
        (["a", "b", "c"], "a, b and 1 more"),
        (["c", "b", "a", "d", "e"], "c, b and 3 more"),
    ],
)
def test_a_list_names_at_most_so_many(names: list[str], text: str) -> None:
    assert listed(names, 2) == text


def test_a_text_about_an_address_has_none_of_its_secrets() -> None:
    address = "http://me:word@host/runs?key=token"

    assert without_secrets(f"no {address}: word, key=token", address) == (
        "no http://***@host/runs?***: ***, ***"
    )
    assert without_secrets("no /runs: word", "/runs") == "no /runs: word"
    addresses = "s3:/a:b:c@host/runs", "http://host/x?t=1", "http://user@host/y", "me:you@here?z"
    assert without_secrets("b:c, a:b:c@, t=1, user, me:you, ?z, b", *addresses) == (
        "***, ***@, ***, ***, me:you, ?z, b"
    )
    assert without_secrets("token", "s3:/me:tok@host", "s3:/you:token@host") == "***"
    assert without_secrets("http://host/runs?", "http://host/runs?") == "http://host/runs?"


@pytest.mark.parametrize(("number", "text"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs")])
def test_only_one_is_singular(number: int, text: str) -> None:
    assert counted(number, "run") == text
