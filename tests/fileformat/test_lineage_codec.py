from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.fileformat._proto import lineage_pb2
from mindsummary_lightning.fileformat.lineage_codec import (
    decode_lineage_content,
    decode_lineage_event,
    encode_lineage_event,
)
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    LineageEvent,
    Operation,
    RunInfo,
    TrainInfo,
    UserDefinedInfo,
)
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


def test_equal_data_sets_give_equal_bytes_whatever_the_order_of_their_names() -> None:
    entries = {f"name{number}": number for number in range(30)}
    turned = dict(reversed(entries.items()))
    one, other = (
        encode_lineage_event(LineageEvent(1.0, DatasetGraph(parameter)))
        for parameter in (entries, turned)
    )

    assert one == other


@pytest.mark.parametrize("filler", [1, 3, 4, 5, 100, 129, 130, 131, 132, 5000])
def test_a_filler_makes_an_event_longer_and_changes_nothing(filler: int) -> None:
    event = LineageEvent(1.5, TrainInfo(optimizer="SGD", epoch=3))
    plain = encode_lineage_event(event)

    filled = encode_lineage_event(event, filler)

    assert filler <= len(filled) - len(plain) <= filler + 2
    assert filled.startswith(plain)
    assert decode_lineage_event(filled) == event
    assert decode_lineage_content(filled) == decode_lineage_content(plain)


def test_a_data_pipeline_comes_back_with_every_kind_of_parameter() -> None:
    operation = Operation({"p": 0.5, "flag": False, "names": ("a", "b")}, (3, -1), (0.25, 4.0))
    graph = DatasetGraph(
        {"op_type": "BatchDataset", "n": -5, "drop": True, "ratio": 2.0, "columns": ("x",)},
        (operation, Operation({"n": 1})),
        None,
        (
            DatasetGraph(sampler=Operation(size=(7,))),
            DatasetGraph(operations=(Operation(),), sampler=Operation()),
            DatasetGraph({"n": 0}, children=(DatasetGraph({"n": 2}),)),
        ),
    )
    event = LineageEvent(1.0, graph)

    assert same(decode_lineage_event(encode_lineage_event(event)), event)
    assert decode_lineage_content(encode_lineage_event(event)) == ("dataset_graph", graph)


def test_each_fact_has_its_field() -> None:
    train = TrainInfo(
        "SGD", 0.5, "CE", 3, "stand_alone", 2, 32, "/train", 1000, "Net", 0.25, "{}", 2**40
    )
    evaluation = EvaluationInfo('{"a": 1}', "/valid", 7)

    assert decode_lineage_content(encode_lineage_event(LineageEvent(1.0, train))) == (
        "train_lineage",
        {
            "hyper_parameters": {
                "optimizer": "SGD",
                "learning_rate": 0.5,
                "loss_function": "CE",
                "epoch": 3,
                "parallel_mode": "stand_alone",
                "device_num": 2,
                "batch_size": 32,
            },
            "algorithm": {"network": "Net", "loss": 0.25},
            "train_dataset": {"train_dataset_path": "/train", "train_dataset_size": 1000},
            "model": {"path": "{}", "size": 2**40},
        },
    )
    assert decode_lineage_content(encode_lineage_event(LineageEvent(1.0, evaluation))) == (
        "evaluation_lineage",
        {
            "metric": '{"a": 1}',
            "valid_dataset": {"valid_dataset_path": "/valid", "valid_dataset_size": 7},
        },
    )
    for what in (train, evaluation):
        event = LineageEvent(1.0, what)
        assert decode_lineage_event(encode_lineage_event(event)) == event


def test_custom_data_of_mindspores_reader_and_of_ours_are_told_apart() -> None:
    for what, name in (
        (UserDefinedInfo({"a": 1}), "user_defined_info"),
        (RunInfo({"a": 1}), "run_info"),
    ):
        payload = encode_lineage_event(LineageEvent(1.0, what))
        assert decode_lineage_content(payload) == (name, {"a": 1})
        assert type(decode_lineage_event(payload).what) is type(what)


def test_each_custom_entry_has_an_element_of_its_own() -> None:
    custom = UserDefinedInfo(
        {"a": 1, "b": 2.0, "c": "x", "d": {"e": 5}, "f": -(2**31), "g": 2**31 - 1}
    )
    message = lineage_pb2.LineageEvent.FromString(encode_lineage_event(LineageEvent(1.0, custom)))
    info = message.user_defined_info

    assert not any((info.map_int32, info.map_str, info.map_double, info.map_dict))
    assert [
        (dict(entry.map_int32), dict(entry.map_double), dict(entry.map_str), list(entry.map_dict))
        for entry in info.user_info
    ] == [
        ({"a": 1}, {}, {}, []),
        ({}, {"b": 2.0}, {}, []),
        ({}, {}, {"c": "x"}, []),
        ({}, {}, {}, ["d"]),
        ({"f": -(2**31)}, {}, {}, []),
        ({"g": 2**31 - 1}, {}, {}, []),
    ]
    assert [dict(entry.map_int32) for entry in info.user_info[3].map_dict["d"].user_info] == [
        {"e": 5}
    ]


def test_an_int_beyond_32_bits_is_what_mindinsight_can_show_and_is_read_back_as_an_int() -> None:
    whole = {"a": 2**31, "b": -(2**31) - 1, "c": 2**53, "d": 2**53 + 1, "e": -(2**70)}
    others = {"f": 3e9, "g": "3000000000"}
    payload = encode_lineage_event(LineageEvent(1.0, UserDefinedInfo({**whole, **others})))
    entries = lineage_pb2.LineageEvent.FromString(payload).user_defined_info.user_info

    shown = {
        key: text
        for entry in entries
        for key, text in {**entry.map_double, **entry.map_str}.items()
    }
    assert shown == {
        "a": 2.0**31, "b": -(2.0**31) - 1, "c": 2.0**53, "d": "9007199254740993",
        "e": str(-(2**70)), **others
    }  # fmt: skip
    back = decode_lineage_event(payload).what
    assert isinstance(back, UserDefinedInfo)
    assert back.values == {**whole, **others}
    assert [type(value) for value in back.values.values()] == [*[int] * 5, float, str]


def test_the_first_and_the_last_int_of_32_bits_are_ints_for_mindinsight_too() -> None:
    ints = {"first": -(2**31), "last": 2**31 - 1}
    payload = encode_lineage_event(LineageEvent(1.0, UserDefinedInfo(ints)))
    entries = lineage_pb2.LineageEvent.FromString(payload).user_defined_info.user_info

    assert [dict(entry.map_int32) for entry in entries] == [
        {"first": -(2**31)},
        {"last": 2**31 - 1},
    ]


def test_a_mark_of_an_int_on_what_is_none_changes_nothing() -> None:
    message = lineage_pb2.LineageEvent(wall_time=1.0)
    for content in ("text", "1.5"):
        message.user_defined_info.user_info.add(is_int=True).map_str[content] = content
    message.user_defined_info.user_info.add(is_int=True).map_double["inf"] = math.inf

    back = decode_lineage_event(message.SerializeToString()).what

    assert isinstance(back, UserDefinedInfo)
    assert back.values == {"text": "text", "1.5": "1.5", "inf": math.inf}


def test_facts_that_are_not_known_stay_out_of_the_file() -> None:
    message = lineage_pb2.LineageEvent.FromString(
        encode_lineage_event(LineageEvent(1.0, TrainInfo(epoch=0)))
    )

    assert message.train_lineage.hyper_parameters.HasField("epoch")
    assert not message.train_lineage.hyper_parameters.HasField("learning_rate")
    assert not message.train_lineage.HasField("algorithm")


def test_training_lineage_without_any_fact_is_still_training_lineage() -> None:
    assert (
        decode_lineage_event(encode_lineage_event(LineageEvent(1.0, TrainInfo()))).what
        == TrainInfo()
    )


def test_a_path_that_is_not_utf8_is_written_with_escapes() -> None:
    lineage = EvaluationInfo("{}", valid_dataset_path="/data/\udcff", valid_dataset_size=1)

    back = decode_lineage_event(encode_lineage_event(LineageEvent(1.0, lineage))).what

    assert isinstance(back, EvaluationInfo)
    assert back.valid_dataset_path == "/data/\\udcff"


def test_a_kind_of_lineage_that_is_not_known_is_skipped() -> None:
    message = lineage_pb2.LineageEvent(wall_time=2.0, version="x").SerializeToString()

    assert decode_lineage_event(message) == LineageEvent(2.0, None)
    assert decode_lineage_content(message) == ("version", None)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_lineage_event_or_the_one_error(payload: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(decode_lineage_event(payload), LineageEvent)


_MAPS = ("map_int32", "map_str", "map_double", "map_dict")


def _listed(message: Any) -> dict[Any, Any]:
    """What is set in a message, as protobuf itself lists it; of custom data one dict of all
    entries.

    Raises UnicodeDecodeError for text that is not UTF-8, even if a later entry of the same name
    would replace it.
    """
    if not isinstance(message, lineage_pb2.UserDefinedInfo):
        return {
            field.name: _text(content) if field.message_type is None else _listed(content)
            for field, content in message.ListFields()
        }
    values = {}
    for entry in message.user_info:
        listed = {field.name: content for field, content in entry.ListFields()}
        for name in _MAPS:
            for key in listed.get(name, ()):
                content = listed[name][key]
                value = _listed(content) if name == "map_dict" else _text(content)
                is_int = entry.is_int and name != "map_dict"
                values[_text(key)] = _int_or_itself(value) if is_int else value
    return values


def _int_or_itself(value: Any) -> Any:
    with contextlib.suppress(ValueError, OverflowError):
        return int(value)
    return value


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


@given(
    st.lists(
        draw.train_lineages | draw.evaluation_lineages | draw.custom_lineages | draw.run_infos,
        min_size=1,
        max_size=3,
    ),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
)
def test_the_fields_of_an_event_are_those_that_protobuf_lists(
    whats: list[Any], changed_bytes: list[tuple[int, int]]
) -> None:
    # Events in a row are one message, whose parts protobuf merges; changed bytes make others, or
    # texts without UTF-8.
    payload = bytearray(b"".join(encode_lineage_event(LineageEvent(1.0, what)) for what in whats))
    for at, byte in changed_bytes:
        payload[at % len(payload)] = byte
    try:
        message = lineage_pb2.LineageEvent.FromString(bytes(payload))
    except (DecodeError, UnicodeDecodeError):  # the latter by protobuf in pure Python
        return
    kind = message.WhichOneof("what")
    if kind not in ("train_lineage", "evaluation_lineage", "user_defined_info", "run_info"):
        return
    try:
        expected = _listed(getattr(message, kind))
    except UnicodeDecodeError:
        with pytest.raises(ValueError, match=r"UTF-8|utf-8"):
            decode_lineage_content(bytes(payload))
    else:
        # the order and a NaN too
        assert repr(decode_lineage_content(bytes(payload))) == repr((kind, expected))


def test_what_is_no_lineage_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a lineage value such as a TrainInfo, not 3"):
        encode_lineage_event(LineageEvent(1.0, 3))  # type: ignore[arg-type]
