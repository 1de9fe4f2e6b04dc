"""Record every case with a real MindSpore and write down what its file says: the golden values.

Run in an environment that holds MindSpore 2.7.0 (never in ours):
``python write_with_mindspore.py [--output FILE]``. The files are read back with MindSpore's own
protobuf classes, so nothing of this package takes part. MindSpore writes in a worker process; a
case that kills the worker is missing from its file and is noted as lost.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import math
import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
from cases import CASES, Case
from mindspore.train import summary_pb2
from PIL import Image

_DEFAULT_OUTPUT = Path(__file__).with_name("mindspore_values.json")


def _number(value: float) -> float | str:
    """The number as JSON allows it: one that is not finite becomes its name."""
    return value if math.isfinite(value) else str(value)


def _numbers(values: Any) -> list[float | str]:
    return [_number(value) for value in values]


def _payloads(content: bytes) -> Iterator[bytes]:
    """The bodies in TFRecord framing: 8 bytes of length, 4 of CRC, the body, 4 of CRC."""
    position = 0
    while position < len(content):
        (length,) = struct.unpack_from("<Q", content, position)
        yield content[position + 12 : position + 12 + length]
        position += 16 + length


def _picture(image: Any) -> dict[str, Any]:
    picture = Image.open(io.BytesIO(image.encoded_image))
    return {
        "height": image.height,
        "width": image.width,
        "colorspace": image.colorspace,
        "format": picture.format,
        "mode": picture.mode,
        "pixels": base64.b64encode(zlib.compress(picture.tobytes(), 9)).decode(),
    }


def _written(value: Any) -> dict[str, Any]:
    """What one ``Summary.Value`` says, field by field."""
    kind = value.WhichOneof("value")
    if kind == "scalar_value":
        return {"scalar": _number(value.scalar_value)}
    if kind == "tensor":
        tensor = value.tensor
        assert {field.name for field, _ in tensor.ListFields()} <= {
            "dims",
            "data_type",
            "float_data",
        }, tensor
        return {
            "dims": list(tensor.dims),
            "data_type": tensor.data_type,
            "float_data": _numbers(tensor.float_data),
        }
    if kind == "image":
        return _picture(value.image)
    histogram = value.histogram
    return {
        "lefts": _numbers(bucket.left for bucket in histogram.buckets),
        "widths": _numbers(bucket.width for bucket in histogram.buckets),
        "counts": [bucket.count for bucket in histogram.buckets],
        "count": histogram.count,
        "nan_count": histogram.nan_count,
        "pos_inf_count": histogram.pos_inf_count,
        "neg_inf_count": histogram.neg_inf_count,
        **{
            name: _number(getattr(histogram, name)) if histogram.HasField(name) else None
            for name in ("min", "max", "sum")
        },
    }


def _record(case: Case, folder: Path) -> dict[str, Any]:
    """Record one case in a run of its own: a value that MindSpore's worker cannot write ends that
    worker.
    """
    with mindspore.SummaryRecord(str(folder), num_process=1) as record:
        try:
            record.add_value(case.plugin, case.tag, mindspore.Tensor(case.value))
        except (TypeError, ValueError) as error:
            return {"lost": f"{type(error).__name__} from add_value: {error}"}
        record.record(1)
        path = Path(record.log_dir)
    content = path.read_bytes() if path.exists() else b""
    events = [summary_pb2.Event.FromString(payload) for payload in _payloads(content)]
    values = [value for event in events for value in event.summary.value]
    if not values:
        return {"lost": "add_value accepted it; the worker that writes it died"}
    (value,) = values
    assert value.tag == case.tag, f"the file holds {value.tag!r}, expected {case.tag!r}"
    return _written(value)


def main() -> None:
    """Record, read back and write the JSON text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=_DEFAULT_OUTPUT, help="the golden file by default"
    )
    output: Path = parser.parse_args().output
    with tempfile.TemporaryDirectory() as folder:
        values = {
            case.tag: _record(case, Path(folder, str(number))) for number, case in enumerate(CASES)
        }
    document = {
        "written_by": {"mindspore": mindspore.__version__, "numpy": np.__version__},
        "values": values,
    }
    text = json.dumps(document, indent=1, allow_nan=False)
    output.write_text(_one_line_a_field(text) + "\n", encoding="utf-8")
    lost = [tag for tag, value in values.items() if "lost" in value]
    print(f"{len(CASES)} cases, {len(lost)} lost ({', '.join(lost) or 'none'}) -> {output}")


def _one_line_a_field(text: str) -> str:
    """Indented JSON with every list of numbers on one line, so that a changed field is one changed
    line of a diff.
    """
    lines: list[str] = []
    for line in text.splitlines():
        inside_list = bool(lines) and lines[-1].count("[") > lines[-1].count("]")
        lines[-1:] = [lines[-1] + line.strip()] if inside_list else [*lines[-1:], line]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
