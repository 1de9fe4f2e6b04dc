from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.fileformat._proto import lineage_pb2
from mindsummary_lightning.fileformat.lineage_codec import decode_lineage_event, encode_lineage_event
from mindsummary_lightning.values import EvaluationInfo, LineageEvent, TrainInfo, UserDefinedInfo
from tests.fileformat import strategies as draw
from tests.fileformat.sameness import same


@given(draw.wall_times, draw.lineage_values)
def test_lineage_comes_back_as_it_went(wall_time: float, what: Any) -> None:
    event = LineageEvent(wall_time, what)

    assert same(decode_lineage_event(encode_lineage_event(event)), event)


@given(draw.lineage_values)
def test_equal_lineage_gives_equal_bytes(what: Any) -> None:
    once = encode_lineage_event(LineageEvent(1.0, what))

    assert encode_lineage_event(decode_lineage_event(once)) == once


def test_each_custom_entry_has_an_element_of_its_own() -> None:
    custom = UserDefinedInfo({"a": 1, "b": 2.0, "c": "x", "d": {"e": 5}})
    message = lineage_pb2.LineageEvent.FromString(encode_lineage_event(LineageEvent(1.0, custom)))
    info = message.user_defined_info

    assert not any((info.map_int32, info.map_str, info.map_double, info.map_dict))
    assert [
        (dict(entry.map_int32), dict(entry.map_double), dict(entry.map_str), list(entry.map_dict))
        for entry in info.user_info
    ] == [({"a": 1}, {}, {}, []), ({}, {"b": 2.0}, {}, []), ({}, {}, {"c": "x"}, []), ({}, {}, {}, ["d"])]
    assert [dict(entry.map_int32) for entry in info.user_info[3].map_dict["d"].user_info] == [{"e": 5}]


def test_facts_that_are_not_known_stay_out_of_the_file() -> None:
    message = lineage_pb2.LineageEvent.FromString(encode_lineage_event(LineageEvent(1.0, TrainInfo(epoch=0))))

    assert message.train_lineage.hyper_parameters.HasField("epoch")
    assert not message.train_lineage.hyper_parameters.HasField("learning_rate")
    assert not message.train_lineage.HasField("algorithm")


def test_training_lineage_without_any_fact_is_still_training_lineage() -> None:
    assert decode_lineage_event(encode_lineage_event(LineageEvent(1.0, TrainInfo()))).what == TrainInfo()


def test_a_path_that_is_not_utf8_is_written_with_escapes() -> None:
    lineage = EvaluationInfo("{}", valid_dataset_path="/data/\udcff", valid_dataset_size=1)

    back = decode_lineage_event(encode_lineage_event(LineageEvent(1.0, lineage))).what

    assert isinstance(back, EvaluationInfo)
    assert back.valid_dataset_path == "/data/\\udcff"


def test_a_kind_of_lineage_that_is_not_known_is_skipped() -> None:
    message = lineage_pb2.LineageEvent(wall_time=2.0, version="x").SerializeToString()

    assert decode_lineage_event(message) == LineageEvent(2.0, None)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_lineage_event_or_the_one_error(payload: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(decode_lineage_event(payload), LineageEvent)


def test_what_is_no_lineage_is_refused() -> None:
    with pytest.raises(TypeError, match="carries a lineage value, not 3"):
        encode_lineage_event(LineageEvent(1.0, 3))  # type: ignore[arg-type]
