from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.viewer.markup import (
    as_recorded,
    body_as_recorded,
    drawable,
    drawable_pipeline,
    without_markup,
)

_TEXTS = st.text(st.sampled_from('<&\u2060a"\\\n/é'), max_size=8)


def _answered(text: str) -> str:
    answer: str = json.loads(without_markup(json.dumps(text)))
    return answer


@given(_TEXTS)
def test_a_text_that_was_answered_is_found_again(text: str) -> None:
    answered = _answered(text)

    assert as_recorded(answered) == text
    body = json.dumps({answered: [answered]}, ensure_ascii=False).encode()  # as a browser encodes it
    assert json.loads(body_as_recorded(body)) == {text: [text]}


@pytest.mark.parametrize("text", ["<meta http-equiv=refresh>", "</td>", "<!--", "a&lt;b", "&#60;b>", "<<b", "<&lt;"])
def test_no_text_begins_a_tag_or_an_entity(text: str) -> None:
    answered = _answered(text)

    assert all(answered[index + 1] == "\u2060" for index, character in enumerate(answered) if character in "<&")
    assert answered.replace("\u2060", "") == text


def test_numbers_and_keys_are_json_as_before() -> None:
    answer = {"a<b": [1, -2.5, None, True], "c": float("nan")}

    assert json.loads(without_markup(json.dumps({"x": 1, **answer}))).keys() == {"x", "a<\u2060b", "c"}


def test_a_name_drawn_in_dot_has_no_character_that_ends_it() -> None:
    assert drawable('Add"<b>\\') == "Add'(b)∖"


def test_the_operations_of_a_pipeline_are_drawn_in_dot_and_their_parameters_are_not() -> None:
    pipeline = {"op_type": 'Map"', "children": [{"op_type": "B<"}], "operations": [{"tensor_op_name": '"', "x": '"'}]}

    assert drawable_pipeline(pipeline) == {
        "op_type": "Map'",
        "children": [{"op_type": "B("}],
        "operations": [{"tensor_op_name": "'", "x": '"'}],
    }
