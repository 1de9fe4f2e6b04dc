"""Row 33: JSON texts and nested messages in lineage files that cost a parser its stack or its time:
none crashes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.wire import varint
from mindsummary_lightning.values import EvaluationInfo, TrainInfo, UserDefinedInfo
from tests.cli.command import mindsummary
from tests.faults.test_giants import all_pages, all_verbs
from tests.reading.runs import values_at, write_lineage, write_summary

pytestmark = [pytest.mark.slow, pytest.mark.faults]

Figure = Callable[[int, str], None]
LEVELS = 100_000
TEXTS = {
    "lists in lists": '{"a": ' + "[" * LEVELS + "]" * LEVELS + "}",
    "objects in objects": '{"a": ' * LEVELS + "1" + "}" * LEVELS,
    "never closed": '{"a": ' * LEVELS,
    "more digits than Python converts": '{"a": ' + "7" * 200_000 + "}",
    "digits that no float has": '{"a": ' + "7" * 4000 + ', "b": [-' + "7" * 4000 + "]}",
    "exponents": '{"a": 1e400, "b": 1e-99999999999999999999, "c": -1E+400}',
    "one key again and again": "{" + ", ".join(f'"a": {number}' for number in range(50_000)) + "}",
    "no object": "[1, 2]",
    "surrogates, NUL and markup": (
        r'{"\ud800": "\udfff", "\u0000": "\u0000", "": 1, "<": '
        r'"</script>"}'
    ),
}
NO_METRICS = {
    "lists in lists",
    "objects in objects",
    "never closed",
    "more digits than Python converts",
    "no object",
}
# 1e400 is Infinity in MindInsight's answer, which a browser cannot parse
NOT_FINITE = {"exponents"}
LONG = {"lists in lists", "never closed", "one key again and again", "exponents"}
# Fields of a stage in a stage of a pipeline, of custom data in custom data, and in their maps.
NESTED = {"stages": [b"\x0a"], "custom data": [b"\x0a"], "maps": [b"\x12", b"\x12"]}
FIELDS = {"stages": b"\x4a", "custom data": b"\x52", "maps": b"\x52"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in TEXTS]
)
def test_json_of_a_lineage_file_is_shown_or_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], figure: Figure, name: str
) -> None:
    run, text = tmp_path / "run", TEXTS[name]
    write_summary(run, [values_at(1, {"loss": 1.0})])
    custom = UserDefinedInfo({"text": text})
    write_lineage(
        run,
        [
            TrainInfo(network="Net", model_path='{"ckpt": ' + text + "}"),
            EvaluationInfo(text),
            custom,
        ],
    )

    pages = all_pages(run, tmp_path)
    answers = all_verbs(capsys, run, tmp_path)
    by_metric = mindsummary(capsys, "lineage", run, "--where", "metric/a > 1", "--sort", "metric/a")

    codes = {**dict.fromkeys(answers, 0), "verify": int(name in NO_METRICS | NOT_FINITE)}
    assert {verb: answer.code for verb, answer in answers.items()} == codes
    assert by_metric.code in (0, 2)  # 2: there is no such metric
    figure(33, f"lineage, {name}: {len(answers)} verbs and {pages.total()} pages answer")


@pytest.mark.parametrize(
    ("levels", "name"),
    [
        (5000, "custom data"),
        (48, "stages"),
        *(
            pytest.param(levels, name, marks=pytest.mark.long)
            for levels in (48, 90, 5000)
            for name in NESTED
        ),
    ],
)
def test_messages_nested_without_end_are_shown_or_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], figure: Figure, name: str, levels: int
) -> None:
    run, message = tmp_path / "run", b""
    write_summary(run, [values_at(1, {"loss": 1.0})])
    path = write_lineage(run, [TrainInfo(network="Net")])
    for level in range(levels):
        key = NESTED[name][level % len(NESTED[name])]
        message = key + varint(len(message)) + message
    payload = b"\x09" + bytes(8) + FIELDS[name] + varint(len(message)) + message
    path.write_bytes(path.read_bytes() + b"".join(map(bytes, frame([payload]))))

    pages = all_pages(run, tmp_path)
    answers = all_verbs(capsys, run, tmp_path)

    assert all(
        answer.code in (0, 1) and answer.err.count("\n") <= 3 for answer in answers.values()
    ), answers
    figure(33, f"{levels} levels of {name}: {len(answers)} verbs and {pages.total()} pages answer")
