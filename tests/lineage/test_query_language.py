"""The query language as docs/reference/query-language.md defines it."""

from __future__ import annotations

import contextlib
import datetime
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.errors import LineageSearchConditionParamError
from mindsummary_lightning.lineage.cell_values import in_order, sort_key
from mindsummary_lightning.lineage.field_names import QueryError
from mindsummary_lightning.lineage.query_conditions import (
    Alternative,
    Condition,
    Conditions,
    Word,
    fits,
)
from mindsummary_lightning.lineage.query_language import parse_conditions

ROW: dict[str, Any] = {
    "summary_dir": "./sweep/version_1",
    "optimizer": "Adam",
    "loss": 0.25,
    "epoch": 3,
    "status": "growing",
    "metric/val/accuracy": 0.9,
    "metric/AP@IoU=0.50": 0.4,
    "metric/diverged": math.nan,
    "user_defined/batch norm": "after",
    "user_defined/amsgrad": 1,
    "user_defined/nesterov": True,
    "user_defined/dropout": "nan",
    "user_defined/scale": "Infinity",
    "user_defined/tokens": 7_000_000_000,
    "user_defined/seed": 2**53 + 1,
    "user_defined/lr_text": "1e-3",
    "user_defined/note": "a long text, with 5 words",
    "user_defined/quoted": 'say "hello"',
    "user_defined/empty": "",
    "user_defined/path": "/data/train",
    "user_defined/Case": 1,
    "user_defined/case": 2,
    "user_defined/a=b": 5,
    "user_defined/名称": "训练",
    "user_defined/layers": ["wide", "schmal ü"],
    "user_defined/lowest": "-inf",
    "user_defined/year": 2026,
    "user_defined/nothing": None,
    "user_defined/ends in a slash/": 1,
    "written": 1_769_860_800.0,  # 2026-01-31 12:00:00 UTC
}


def is_found(query: str | list[str], row: dict[str, Any] = ROW, **more: Any) -> bool:
    return parse_conditions(query, ROW, timezone=datetime.timezone.utc, **more).matches(row)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # names
        ("loss<0.3", True),
        ("loss < 0.3", True),
        ("accuracy>0.8", True),
        ("val/accuracy>0.8", True),
        ("metric_val/accuracy>0.8", True),
        ("user_defined/status=growing", True),
        ("AP@IoU=0.50>0.3", True),
        ("AP@IoU=0.50=0.4", True),
        ('"AP@IoU=0.50">0.3', True),
        ("'metric/AP@IoU=0.50'<0.3", False),
        ("batch norm=after", True),
        ('"batch norm"=after', True),
        ("optimizer=Adam batch norm=before", False),
        ("a=b=5", True),
        ("Case=1 case=2", True),
        ("EPOCH=3", True),
        ("名称=训练", True),
        # text
        ("optimizer=adam", True),
        ("optimizer=ADAM", True),
        ("optimizer!=adam", False),
        ('optimizer="adam"', False),
        ("optimizer='Adam'", True),
        ("optimizer=Ad*", True),
        ("optimizer=*da*", True),
        ("optimizer!=S*", True),
        ("optimizer=Ad", False),
        ('optimizer="Ad*"', False),
        ('note="a long text, with 5 words"', True),
        ("note=a*words", True),
        ('quoted="say ""hello"""', True),
        ("quoted='say \"hello\"'", True),
        ("empty=", True),
        ('empty=""', True),
        ("path=/data/train", True),
        ("optimizer>=adam", True),
        ("optimizer<Adam", False),
        ("optimizer>='Adam'", True),
        ("optimizer<'adam'", True),
        ("optimizer>'B'", False),
        ("optimizer<='B'", True),
        ("tokens<'9'", False),
        # numbers
        ("epoch==3", True),
        ("epoch=3.0", True),
        ("epoch>2.5", True),
        ("tokens>=7e9", True),
        ("tokens=7000000000", True),
        ("tokens>7e9", False),
        ("seed=9007199254740993", True),
        ("seed=9007199254740992", False),
        ("seed>9007199254740992", True),
        ("lr_text<0.01", True),
        ("lr_text=0.001", True),
        ("amsgrad='1'", False),
        ("user_defined/lr_text='1e-3'", True),
        # booleans
        ("amsgrad=True", True),
        ("amsgrad=true", True),
        ("amsgrad=1", True),
        ("amsgrad!=false", True),
        ("nesterov=1", True),
        ("nesterov=true", True),
        ("nesterov=false", False),
        # not finite
        ("diverged=NaN", True),
        ("diverged=nan", True),
        ("diverged!=NaN", False),
        ("diverged<1", False),
        ("diverged=1", False),
        ("diverged!=1", True),
        ("loss!=NaN", True),
        ("loss=NaN", False),
        ("dropout=NaN", True),
        ("scale=inf", True),
        ("scale>1e300", True),
        ("scale=-inf", False),
        ("scale>-inf", True),
        ("lowest=-Infinity", True),
        ("lowest<-1e308", True),
        ("lowest>=0", False),
        # no value
        ("metric/missing>0", False),
        ("metric/missing!=0", True),
        ("nothing!=0", True),
        ("nothing=None", False),
        ("none", False),
        # words
        ("adam", True),
        ("growing", True),
        ("status=growing", True),
        ("-adam", False),
        ("-sgd", True),
        ("version_1 -version_1*", False),
        ("v*n_1", True),
        ('"long text"', True),
        ('"l*g"', False),
        ("-", True),
        ("=0.25", True),
        ('layers=["wide",*ü"]', True),
        ('"[""wide"", ""schmal ü""]"', True),
        ("lstm OR adam", True),
        ("loss>1 OR epoch=3 OR lstm", True),
        ("loss>1 OR epoch=4", False),
        ("optimizer=adam loss>1", False),
        ("optimizer=adam version_1", True),
        ("", True),
        # dates
        ("written>=2026-01-31", True),
        ("written=2026-01", True),
        ("written<2026-01-31", False),
        ("written>2026-01-31T11:59", True),
        ("written!=2026-01-30", True),
        ("year=2026", True),
        ("year>2025 year<2027", True),
    ],
)  # fmt: skip
def test_a_query_finds_what_cells_show(query: str, expected: bool) -> None:
    assert is_found(query) is expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("aa*aa", "aaa", False),
        ("aa*aa", "aaaa", True),
        ("*ab*ab*", "ab", False),
        ("*ab*ab*", "xabyabz", True),
        ("a*b*c", "acbc", True),
        ("a*b*b", "ab", False),
        ("a*bc*", "abcc", True),
        ("a**b", "ab", True),
        ("*", "", True),
        ("a*", "ba", False),
        ("*a", "ab", False),
    ],
)
def test_parts_between_stars_follow_each_other_and_do_not_overlap(
    pattern: str, text: str, expected: bool
) -> None:
    assert fits(pattern, text) is expected


@pytest.mark.slow
@given(
    st.text("ab*", min_size=1, max_size=6).filter(lambda text: "*" in text),
    st.text("ab", max_size=8),
)
def test_a_star_stands_for_anything(pattern: str, text: str) -> None:
    expected = re.fullmatch(pattern.replace("*", ".*"), text) is not None

    assert fits(pattern, text) is expected


def test_a_whole_number_beyond_every_float_is_found_and_sorted_as_a_number() -> None:
    assert is_found("loss>1e308", {"loss": 10**400})
    assert not is_found("loss=nan", {"loss": 10**400})
    assert not is_found("loss=1", {"loss": 10**400})
    assert in_order([10**400, 1.5, math.nan, -(10**400)], lambda value: value)[:3] == [
        -(10**400),
        1.5,
        10**400,
    ]


@pytest.mark.parametrize("seconds", [253_402_387_200.0, 1e300, float("inf"), float("nan")])
def test_a_time_that_no_calendar_has_differs_from_every_date(seconds: float) -> None:
    assert is_found("written!=2026-01-31", {"written": seconds})
    assert not is_found("written=2026-01-31", {"written": seconds})
    assert not is_found("written>2026-01-31", {"written": seconds})


def test_a_word_with_stars_is_looked_for_within_one_value_and_in_no_time() -> None:
    assert not is_found("adam*after")
    assert is_found("bat*after")
    assert not is_found("*".join("a" * 30) + "b", {"user_defined/long": "a" * 5_000})


@given(st.text(st.sampled_from("ab=<>!\"' *-OR\t.1e"), max_size=30))
def test_any_text_is_a_query_or_the_one_error(query: str) -> None:
    with contextlib.suppress(QueryError):
        assert parse_conditions(query, ["a", "b", "a b", "a=b"], is_rest_value=True).matches(
            {"a": 1}
        ) in (True, False)


@pytest.mark.slow
@given(st.text(min_size=1, max_size=8), st.text(max_size=8))
def test_any_name_and_text_can_be_asked_for_in_quotes(name: str, value: str) -> None:
    quoted = ['"' + text.replace('"', '""') + '"' for text in (name, value)]

    query = parse_conditions("=".join(quoted), [f"user_defined/{name}"])

    assert query.fields == (f"user_defined/{name}",)
    assert query.matches({f"user_defined/{name}": value})


def test_only_the_directory_of_a_run_is_compared_as_a_path_below_the_base(tmp_path: Path) -> None:
    query = f"summary_dir={tmp_path}/a/run train_dataset_path={tmp_path}/data"
    known = ["summary_dir", "train_dataset_path"]
    row = {"summary_dir": "./a/run", "train_dataset_path": f"{tmp_path}/data"}

    assert parse_conditions(query, known, base_dir=str(tmp_path)).matches(row)
    assert not parse_conditions(query, known).matches(row)


def test_of_several_queries_all_must_hold() -> None:
    assert is_found(["optimizer=adam", "loss<1 OR loss>5"])
    assert not is_found(["optimizer=adam", "loss>1 OR loss>5"])


def test_blanks_after_the_only_condition_may_belong_to_its_value() -> None:
    assert is_found("note=a long text, with 5 words", is_rest_value=True)
    assert not is_found("note=a long text, with 5 words")
    assert is_found("note=A Long text, WITH* ", is_rest_value=True)
    assert is_found("version_1 loss=0.25", is_rest_value=True)
    assert is_found("loss=0.25 epoch=3 adam", is_rest_value=True)
    assert is_found("note=a* version_1 OR loss>9", is_rest_value=True)


def test_the_longest_known_name_may_hold_blanks() -> None:
    assert parse_conditions("batch norm=1", ["batch norm"]).fields == ("batch norm",)
    for name in ("c d", "a b/c d", "x/a b/c d"):
        assert parse_conditions(f"{name}=1", ["metric/x/a b/c d"]).fields == ("metric/x/a b/c d",)


def test_the_older_spelling_of_a_metric_means_one_that_no_run_has_yet() -> None:
    assert parse_conditions("metric_speed>1", ROW).fields == ("metric/speed",)
    assert parse_conditions("metric_x>1", ["metric/x", "user_defined/metric_x"]).fields == (
        "metric/x",
    )
    for name in ("metric_", "metric/", "user_defined/", "last:"):
        with pytest.raises(QueryError, match=f"no field '{name}'"):
            parse_conditions(f"{name}>1", ROW)


def test_names_are_taken_as_they_are_written_where_none_are_known() -> None:
    assert parse_conditions("accuracy>0.5").fields == ("accuracy",)
    assert parse_conditions("accuracy>0.5").matches({"accuracy": 1})


@pytest.mark.parametrize(
    ("query", "problem", "said"),
    [
        ("los>1", "unknown", "no field 'los'; closest: 'loss'"),
        ("loss>high", "number", "loss must be compared with a number, got 'high'"),
        ("loss='0.25'", "number", "loss must be compared with a number, got '0.25'"),
        (
            "lr=1",
            "ambiguous",
            "'lr' is ambiguous. Name one of user_defined/a/lr, user_defined/b/lr",
        ),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused(query: str, problem: str, said: str) -> None:
    known = [*ROW, "user_defined/b/lr", "user_defined/a/lr", "user_defined/optimizer_groups/0/lr"]

    with pytest.raises(
        LineageSearchConditionParamError, match="^" + said.replace("?", r"\?")
    ) as refused:
        parse_conditions(query, known)

    assert isinstance(refused.value, QueryError)
    assert refused.value.problem == problem
    is_ambiguous = problem == "ambiguous"
    assert refused.value.names == (
        ("user_defined/a/lr", "user_defined/b/lr") if is_ambiguous else ()
    )
    assert refused.value.field == re.split("[=>]", query)[0]


def test_queries_are_joined_in_their_order_and_scalars_are_compared_last() -> None:
    found = parse_conditions(["last:loss<1 lr=1 x OR seed=2", "y z='3' OR -'w'"])

    scalar, lr = Condition("last:loss", "<", "1"), Condition("lr", "=", "1")
    seed, z = Condition("seed", "=", "2"), Condition("z", "=", "3", is_quoted=True)
    x, y, w = Word("x"), Word("y"), Word("'w'", is_excluded=True)
    assert found == Conditions(
        (
            Alternative((lr, z, scalar), (x, y)),
            Alternative((lr, scalar), (x, w)),
            Alternative((seed, z), (y,)),
            Alternative((seed,), (w,)),
        )
    )
    assert found.fields == ("lr", "z", "last:loss", "seed")


def test_what_a_run_recorded_comes_before_a_scalar_of_the_same_end() -> None:
    known = ["last:val/loss", "min:val/loss", "best_step:val/loss", "user_defined/x/loss", "lr"]

    for query, field in (
        ("loss<1", "user_defined/x/loss"),
        ("LOSS<1", "user_defined/x/loss"),
        ("val/loss<1", "last:val/loss"),
        ("Val/Loss<1", "last:val/loss"),
        ("MIN:val/loss<1", "min:val/loss"),
        ("best_step:val/loss<1", "best_step:val/loss"),
    ):
        assert parse_conditions(query, known).fields == (field,)
    assert parse_conditions("loss<1", known[:3]).fields == ("last:val/loss",)


def test_a_value_in_quotes_is_of_no_other_language() -> None:
    assert is_found("status=写入中", aliases={"写入中": "growing"})
    assert not is_found('status="写入中"', aliases={"写入中": "growing"})


def test_a_setting_of_a_user_comes_before_that_of_a_parameter_group() -> None:
    known = ["user_defined/optim/lr", "user_defined/optimizer_groups/0/lr"]

    assert parse_conditions("lr=0.1", known).fields == ("user_defined/optim/lr",)
    assert parse_conditions("lr=0.1", known[1:]).fields == (known[1],)
    with pytest.raises(QueryError, match="'lr' is ambiguous"):
        parse_conditions("lr=0.1", [known[1], "user_defined/optimizer_groups/1/lr"])


def test_names_and_texts_of_another_language_are_understood() -> None:
    aliases = {"学习率": "loss", "写入中": "growing"}

    assert is_found("学习率=0.25 status=写入中 写入中", aliases=aliases)
    assert not is_found("-写入中", aliases=aliases)


def test_a_query_says_its_fields_and_words() -> None:
    found = parse_conditions("loss>0 adam OR loss<1 -sgd", ROW)

    assert found.fields == ("loss",)
    assert [word.text for word in found.words] == ["adam", "sgd"]
    assert parse_conditions("loss>0", ROW) == Conditions(
        (type(found.alternatives[0])((Condition("loss", ">", "0"),)),)
    )


def test_values_are_sorted_as_numbers_then_texts_and_what_has_none_comes_last() -> None:
    values = [
        "run10",
        None,
        "run9",
        2**53 + 1,
        math.nan,
        0.5,
        "Run9",
        True,
        "3000000000",
        "NaN",
        2**53,
        -math.inf,
    ]

    ascending = in_order(values, lambda value: value)
    descending = in_order(values, lambda value: value, is_descending=True)

    in_both = ["NaN", None]
    numbers = [-math.inf, 0.5, True, "3000000000", 2**53, 2**53 + 1]
    assert [value for value in ascending if not isinstance(value,
    float) or not math.isnan(value)] == [
        *numbers, "Run9", "run9", "run10", *in_both,
    ]  # fmt: skip
    assert [value for value in descending if not isinstance(value,
    float) or not math.isnan(value)] == [
        "run10", "run9", "Run9", *reversed(numbers), *in_both,
    ]  # fmt: skip
    assert sort_key(True) == sort_key(1) == sort_key("1")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("/version_[12]$/", True),
        ("/VERSION_[34]$/", False),
        ("-/version_[34]$/", True),
        ("/^optimizer=ad/ loss<0.3", True),
        ("/sweep/version/", True),
        ("/lr.*=1e/ OR /^nothing$/", True),
        ("/^sweep/version_1$/", True),
    ],
)
def test_a_word_between_slashes_is_a_regular_expression(query: str, expected: bool) -> None:
    assert is_found(query) == expected


def test_what_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(QueryError, match=r"\( must be a regular expression") as refused:
        is_found("/(/")
    assert refused.value.problem == "expression"


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("(a+)+$", "it repeats a group"),
        ("(a|a)*$", "it repeats a group"),
        ("((a+)){2,}", "it repeats a group"),
        (r"(a+\\)+$", "it repeats a group"),
        ("a*a*a*b", "it repeats more than 2 parts"),
        ("a" * 201, "it is longer than 200 letters"),
    ],
)
def test_an_expression_that_could_take_very_long_is_refused(expression: str, problem: str) -> None:
    with pytest.raises(QueryError, match=problem) as refused:
        is_found(f"/{expression}/")
    assert refused.value.names == (problem,)


def test_an_expression_with_dates_and_an_escaped_bracket_is_quick() -> None:
    assert not is_found(r"/\d{4}-\d{2}-\d{2}_.*\)+/")
