"""Row 33: small files that claim to hold something giant, and files that do, in all verbs and
pages: none crashes.
"""

from __future__ import annotations

import itertools
import struct
import urllib.error
import urllib.request
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest

from mindsummary_lightning import SummaryReader
from mindsummary_lightning.errors import DamagedFileError
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.wire import varint
from mindsummary_lightning.values import Event, Graph, GraphInput, GraphNode, Image
from mindsummary_lightning.viewer.access import Access
from mindsummary_lightning.viewer.app import API_PREFIX, create_app
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.cli.command import Answer, mindsummary
from tests.faults.damaged_runs import page_requests
from tests.reading.runs import record, values_at, write_summary
from tests.viewer.serving import serving
from tests.viewer.small_frontend import SMALL_WHEEL

pytestmark = [pytest.mark.slow, pytest.mark.faults]

Figure = Callable[[int, str], None]
_PAGE_LIMIT_S = 800  # for the long form, on a machine that does much else


def all_verbs(capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path) -> dict[str, Answer]:
    """Every verb that reads a run; a verb that crashes raises here."""
    path = min(run.iterdir())  # the summary file, if there is lineage beside it
    calls = {
        "list": ["list", run],
        "show": ["show", run],
        "dump": ["dump", path],
        "verify": ["verify", run],
        "lineage": ["lineage", run],
        **{
            form: ["export", run, "--to", form, "--out", tmp_path / form]
            for form in ("csv", "npy", "tensorboard")
        },
        "import": ["import", tmp_path / "tensorboard", "--out", tmp_path / "imported"],
        "report": ["report", run, "-o", tmp_path / "report.html"],
        "repair": ["repair", run],
    }
    return {verb: mindsummary(capsys, *call) for verb, call in calls.items()}


def all_pages(run: Path, tmp_path: Path, most: int | None = None) -> Counter[int]:
    """Ask a server for every page of a run, or for the first ones; its answers by status, 200 or
    400.
    """
    runs = LoadedRuns(str(run))
    (found,) = runs.listing()
    statuses: Counter[int] = Counter()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with serving(create_app(LoadedRuns(str(run)), SMALL_WHEEL, Access(None))) as port:
        for path, query in itertools.islice(page_requests(runs, found.train_id), most):
            try:
                asked = f"http://127.0.0.1:{port}{API_PREFIX}{path}?{urlencode(query, doseq=True)}"
                with opener.open(asked, timeout=_PAGE_LIMIT_S) as answer:
                    answer.read()
                    statuses[answer.status] += 1
            except urllib.error.HTTPError as error:
                statuses[error.code] += 1
    assert set(statuses) <= {200, 400}, statuses
    return statuses


def png(width: int, height: int) -> bytes:
    """A PNG of one colour that is small in the file and giant when it is opened."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = zlib.compress(bytes(10_000_000), 9)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_a_picture_that_would_fill_the_memory_is_not_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], figure: Figure
) -> None:
    run = tmp_path / "run"
    write_summary(run, [values_at(1, {"bomb": Image(60_000, 60_000, png(60_000, 60_000))})])

    pages = all_pages(run, tmp_path)
    answers = all_verbs(capsys, run, tmp_path)

    assert pages[200] > 4
    assert {verb: answer.code for verb, answer in answers.items()} == dict.fromkeys(answers, 0)
    with pytest.raises(DamagedFileError, match="cannot be opened"):
        list(SummaryReader(run).pictures("bomb"))
    figure(
        33,
        f"a PNG of 60,000 x 60,000 pixels in 10 kB: {len(answers)} verbs and {pages.total()} "
        "pages answer, "
        "`pictures` refuses it",
    )


@pytest.mark.parametrize("shape", ["ten thousand scopes deep", "of a million nodes"])
def test_a_giant_graph_is_read(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    times: Callable[[int, int], int],
    figure: Figure,
    shape: str,
) -> None:
    run, scope = tmp_path / "run", "/".join(["scope"] * 10_000)
    nodes = [GraphNode("1", "Add", scope, f"{scope}/Add-op1")]
    if shape == "of a million nodes":
        nodes = [
            GraphNode(str(number), "Add", f"net/block{number % 100}",
            f"net/block{number % 100}/Add-op{number}",
                      (GraphInput(str(number - 1)),) if number else ())
            for number in range(times(10_000, 1_000_000))
        ]  # fmt: skip
    write_summary(run, [record(Event(1.0, 0, Graph(tuple(nodes))))])

    # up to the graph, whose pages take a minute of processor time each
    most = 8 if len(nodes) > 1 else None
    pages = all_pages(run, tmp_path, most)
    answers = all_verbs(capsys, run, tmp_path)

    assert {verb: answer.code for verb, answer in answers.items()} == dict.fromkeys(answers, 0)
    assert f"{len(nodes)} node" in answers["show"].out
    figure(
        33,
        f"a graph {shape} ({len(nodes):,}): {len(answers)} verbs and {pages.total()} pages answer",
    )


@pytest.mark.parametrize("length", [2**31, 2**32, 2**62, 2**64 - 1])
@pytest.mark.parametrize(
    "keys", [b"\x2a", b"\x22", b"\x1a", b"\x2a\x05\x0a"], ids=["summary", "graph", "text", "value"]
)
def test_a_length_that_no_message_can_have_is_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], figure: Figure, length: int, keys: bytes
) -> None:
    run = tmp_path / "run"
    payload = b"\x09" + struct.pack("<d", 1.0) + keys + varint(length) + b"rest"
    write_summary(run, [values_at(1, {"a": 1.0}), b"".join(map(bytes, frame([payload])))])

    pages = all_pages(run, tmp_path)
    answers = all_verbs(capsys, run, tmp_path)

    refused = {verb for verb, answer in answers.items() if answer.code == 1}
    assert refused == {
        "list",
        "show",
        "dump",
        "verify",
        "csv",
        "npy",
        "tensorboard",
        "import",
        "report",
    }
    assert all(answer.err.count("\n") <= 1 for answer in answers.values())
    assert [answers[verb].code for verb in ("lineage", "repair")] == [0, 0]
    assert len(SummaryReader(run).scalars("a")) == 1
    figure(
        33,
        (
            f"a length of {length} in a message: {pages.total()} pages answer, {len(refused)} "
            "verbs refuse, one repairs"
        ),
    )


@pytest.mark.parametrize("length", [2**31, 2**32, 2**62, 2**64 - 1])
@pytest.mark.parametrize("keys", [b"\x2a", b"\x22", b"\x2a\x05\x0a", b"\x2a\x09\x0a\x07\x42"])
def test_a_length_that_no_message_can_have_is_not_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], length: int, keys: bytes
) -> None:
    pytest.importorskip("tensorboard")
    (tmp_path / "tb").mkdir()
    payload = b"\x09" + struct.pack("<d", 1.0) + keys + varint(length) + b"rest"
    records = b"".join(
        bytes(piece) for data in (b"\x1a\x0dbrain.Event:2", payload) for piece in frame([data])
    )
    (tmp_path / "tb" / "events.out.tfevents.1700000000.host").write_bytes(records)

    answer = mindsummary(capsys, "import", tmp_path / "tb", "--out", tmp_path / "out")

    assert (answer.code, answer.err.count("\n")) == (1, 1), answer
    assert "a record that is not an event of TensorBoard" in answer.err
