"""Inputs of the fuzzer: what their bytes mean, small real runs to begin with, and changes to a
payload's fields.

An input is one byte that says what the rest is, and the rest: the bytes of a summary or lineage
file, or payloads that become the records of one. Each payload has two bytes of length before it,
little-endian; the highest bit puts it into a second file, so that the rule that puts resumed runs
together is reached too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import numpy as np

from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.lineage_codec import encode_lineage_event
from mindsummary_lightning.fileformat.summary_codec import VERSION, encode_event
from mindsummary_lightning.fileformat.wire import varint
from mindsummary_lightning.fileio.scan import RecordScanner
from mindsummary_lightning.values import (
    Attribute,
    DatasetGraph,
    DataType,
    EvaluationInfo,
    Event,
    Graph,
    GraphConstant,
    GraphInput,
    GraphNode,
    GraphOutput,
    GraphParameter,
    Image,
    LandscapeMetadata,
    LineageEvent,
    LossLandscape,
    Operation,
    Points,
    Tensor,
    TensorType,
    TrainInfo,
    TupleType,
    UserDefinedInfo,
)
from tests.reading.runs import histogram, write_mindspore_run
from tests.support import summary_paths

RAW_SUMMARY, RAW_LINEAGE, SUMMARY, LINEAGE = range(4)
_SECOND_FILE = 1 << 15
_LONGEST = _SECOND_FILE - 1

Payload: TypeAlias = "tuple[bool, bytes]"  # whether it belongs into the second file, and its bytes


def run_of(data: bytes) -> tuple[list[bytes], list[bytes]]:
    """The summary and the lineage files that an input stands for."""
    kind, rest = data[0] % 4 if data else RAW_SUMMARY, data[1:]
    if kind in (RAW_SUMMARY, RAW_LINEAGE):
        files = [rest]
    else:
        payloads = [(is_second, payload) for is_second, payload in unpack(rest) if payload]
        files = [
            b"".join(
                b"".join(frame([payload])) for is_second, payload in payloads if is_second is second
            )
            for second in (False, True)
        ]
    return (files, []) if kind in (RAW_SUMMARY, SUMMARY) else ([], files)


def unpack(packed: bytes) -> list[Payload]:
    """The payloads of an input; the last one may be shorter than it says."""
    payloads, at = [], 0
    while at < len(packed):
        head = int.from_bytes(packed[at : at + 2], "little")
        end = at + 2 + head % _SECOND_FILE
        payloads.append((head >= _SECOND_FILE, packed[at + 2 : end]))
        at = end
    return payloads


def pack(payloads: list[Payload]) -> bytes:
    """The reverse of :func:`unpack`."""
    return b"".join(
        (len(payload[:_LONGEST]) + _SECOND_FILE * is_second).to_bytes(2, "little")
        + payload[:_LONGEST]
        for is_second, payload in payloads
    )


# ---- seeds


def seeds() -> Iterator[bytes]:
    """Runs of this package and of MindSpore 2.7.0, as inputs of every kind."""
    for kind, raw, files in (
        (SUMMARY, RAW_SUMMARY, _summaries()),
        (LINEAGE, RAW_LINEAGE, _lineages()),
    ):
        for payloads in files:
            yield bytes([kind]) + pack([(False, payload) for payload in payloads])
            yield bytes([raw]) + b"".join(b"".join(frame([payload])) for payload in payloads)


def _summaries() -> Iterator[list[bytes]]:
    with TemporaryDirectory() as folder:
        write_mindspore_run(Path(folder))
        for path in summary_paths(folder):
            yield list(RecordScanner(str(path)))
    version = Event(1.0, 0, VERSION)
    whats = [Event(1.0, step, (("loss", 0.5), ("acc", float(step)))) for step in range(4)]
    events = [
        [version, *whats],
        [
            Event(1.0, 1, (("h", histogram(1, 2, 3)),)),
            Event(2.0, 2, (("h", histogram(1)), ("a", 1.0))),
        ],
        [Event(1.0, 1, (("i", Image(2, 2, b"\x89PNG")),)), Event(1.0, 1, (("t", _tensor(2, 3)),))],
        [Event(1.0, 1, (("t", Tensor(np.ones(2), DataType.BFLOAT16)), ("t", _tensor(0))))],
        [Event(1.0, 1, (("l", landscape),)) for landscape in _landscapes()],
        [Event(1.0, 0, _graph())],
    ]
    for some in events:
        yield [b"".join(encode_event(event)) for event in some]


def _tensor(*shape: int) -> Tensor:
    return Tensor(np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape))


def _landscapes() -> list[LossLandscape]:
    axis = np.arange(2, dtype=np.float32)
    surface = Points(axis, axis, np.ones((2, 2), np.float32))
    path = Points(axis, axis, axis)
    return [
        LossLandscape(surface, (1, 2), path, (0.0, 1.0, 2.0), LandscapeMetadata("PCA", "step", 3)),
        LossLandscape(surface, metadata=LandscapeMetadata("Random", "epoch", 1)),
    ]


def _graph() -> Graph:
    vector = TensorType(DataType.FLOAT32, (2, -1))
    values = (
        None,
        True,
        1,
        2**64 - 1,
        0.5,
        "text",
        DataType.INT8,
        vector,
        (1, 2),
        {"a": 1, "b": ("c",)},
    )
    node = GraphNode(
        "1",
        "Add",
        "net",
        "net/Add-op1",
        (GraphInput("x"), GraphInput("c", True)),
        tuple(Attribute(str(index), value) for index, value in enumerate(values)),
        TupleType((vector, DataType.INT8)),
        1,
        "name",
    )
    return Graph(
        (node,),
        "g",
        (GraphParameter("x", vector),),
        (GraphConstant("c", 1.0),),
        (GraphOutput("y", DataType.TYPE),),
    )


def _lineages() -> Iterator[list[bytes]]:
    operation = Operation({"p": 0.5, "size": ("a", "")}, (1, 2), (0.5,))
    source = DatasetGraph(
        {"op_type": "MnistDataset", "shuffle": True, "n": 3, "none": "None"}, sampler=operation
    )
    train = TrainInfo(
        "SGD", 0.01, "loss", 3, "stand_alone", 1, 32, "/data", 100, "Net", 0.5, '{"ckpt": null}', 7
    )
    values = [
        [train, EvaluationInfo('{"accuracy": 0.9, "deep": [1, {"a": "b"}]}', "/valid", 10)],
        [DatasetGraph({"op_type": "MapDataset"}, (operation,), None, (source,)), train],
        [
            UserDefinedInfo({"int": 1, "text": "x", "float": 0.5, "nested": {"a": {"b": 1}}}),
            EvaluationInfo(),
        ],
    ]
    for some in values:
        yield [encode_lineage_event(LineageEvent(1.0, value)) for value in some]


# ---- changes to a payload's fields

_Field: TypeAlias = "tuple[int, int | bytes | list[_Field]]"  # key, and what it holds
_NUMBERS = [0, 1, 2, 127, 128, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


def mutated_payload(
    payload: bytes, draw: random.Random, mutate: Callable[[bytes, int], bytes]
) -> bytes:
    """A payload with one field changed, doubled, moved, left out or given another number; the
    lengths are right again.

    Args:
        payload: a protobuf message, or any bytes.
        draw: decides.
        mutate: libFuzzer's own mutation of some bytes; given the longest result allowed.
    """
    fields = _parsed(payload, 0)
    if not fields:
        return mutate(payload, _LONGEST)
    parent = fields
    place = draw.randrange(len(parent))
    while isinstance(parent[place][1], list) and draw.random() < 0.8:
        parent = parent[place][1]
        place = draw.randrange(len(parent))
    key, held = parent[place]
    change = draw.randrange(8)
    if change == 0:
        del parent[place]
    elif change == 1:
        parent.insert(draw.randrange(len(parent) + 1), parent[place])
    elif change == 2:
        draw.shuffle(parent)
    elif change == 3:
        parent[place] = ((draw.randrange(1, 21) << 3) | (key & 7), held)
    elif change == 4:  # itself in itself: what is nested is nested deeper
        parent[place] = (
            (key, [(key, held)] * draw.choice([1, 1, 2])) if key & 7 == 2 else (key, held)
        )
    elif isinstance(held, int):
        parent[place] = (
            key,
            draw.choice([draw.choice(_NUMBERS), (held + draw.choice([-1, 1])) % 2**64]),
        )
    else:
        parent[place] = (key, mutate(held if isinstance(held, bytes) else _joined(held), 4096))
    return _joined(fields)


def _parsed(message: bytes, depth: int) -> list[_Field]:
    """The fields of a message, down to what is no message; empty if the bytes are none."""
    fields: list[_Field] = []
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        wire = key & 7
        if not key >> 3 or wire not in (0, 1, 2, 5):
            return []
        if wire == 0:
            number, at = _number(message, at)
            fields.append((key, number))
            continue
        length, at = _number(message, at) if wire == 2 else (8 if wire == 1 else 4, at)
        held = message[at : at + length]
        at += length
        if len(held) < length:
            return []
        nested = _parsed(held, depth + 1) if wire == 2 and depth < 20 else []
        fields.append((key, nested or held))
    return fields


def _number(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    return number % 2**64, at


def _joined(fields: list[_Field]) -> bytes:
    parts = []
    for key, held in fields:
        if isinstance(held, int):
            parts.append(varint(key) + varint(held))
        else:
            body = held if isinstance(held, bytes) else _joined(held)
            parts.append(varint(key) + (varint(len(body)) if key & 7 == 2 else b"") + body)
    return b"".join(parts)
