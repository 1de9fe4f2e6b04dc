from __future__ import annotations

import asyncio
import io
import json
import math
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindsummary_lightning.viewer import pages
from mindsummary_lightning.viewer.api import (
    ApiError,
    ApiRequest,
    EncodedAnswer,
    Handler,
    PageError,
)
from mindsummary_lightning.viewer.app import (
    API_PREFIX,
    as_recorded,
    body_as_recorded,
    without_markup,
)
from tests.viewer.pages_client import Client, visit


def _fail(runs: object, request: ApiRequest) -> Any:
    raise KeyError("a mistake of ours")


def _refuse(runs: object, request: ApiRequest) -> Any:
    raise ApiError("50545005", "Train job is not exist.")


def _echo(runs: object, request: ApiRequest) -> Any:
    query = {name: list(values) for name, values in request.query.items()}
    return {"query": query, "body": request.body.decode(), "content_type": request.content_type}


_HANDLERS: dict[str, Handler] = {
    "GET echo": _echo,
    "POST echo": _echo,
    "GET image": lambda runs, request: EncodedAnswer(b"\x89PNG", "image/png"),
    "GET numbers": lambda runs, request: {"z": 1.0, "a": [math.nan, math.inf, 0.1], "ä": None},
    "GET large": lambda runs, request: ["large"] * 10_000,
    "GET fail": _fail,
    "GET refuse": _refuse,
}


def test_json_is_sorted_compact_ascii_without_bare_nan_and_ends_in_a_newline(
    tmp_path: Path,
) -> None:
    async def check(client: Client) -> None:
        async with client.get(f"{API_PREFIX}numbers") as answer:
            assert answer.headers["Content-Type"] == "application/json"
            assert await answer.read() == b'{"a":["NaN","Infinity",0.1],"z":1.0,"\\u00e4":null}\n'

    visit(tmp_path, check, handlers=_HANDLERS)


def test_a_handler_gets_every_value_of_the_query_blank_ones_too(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        async with client.get(f"{API_PREFIX}echo?tag=a%2Fb&tag=c+d&empty=&bare&tag=%ff") as answer:
            assert (await answer.json())["query"] == {
                "tag": ["a/b", "c d", "\ufffd"],
                "empty": [""],
                "bare": [""],
            }

    visit(tmp_path, check, handlers=_HANDLERS)


def test_answers_hold_no_markup_and_their_names_come_back_as_they_are_recorded(
    tmp_path: Path,
) -> None:
    async def check(client: Client) -> None:
        async with client.get(f"{API_PREFIX}echo", params={"tag": "<b>&amp;"}) as answer:
            assert b"<b" not in await answer.read()
            (shown,) = (await answer.json())["query"]["tag"]
        async with client.post(
            f"{API_PREFIX}echo", params={"tag": shown}, data=shown.encode()
        ) as answer:
            assert (await answer.json())["body"] == shown
        async with client.get(f"{API_PREFIX}length", params={"tag": shown}) as answer:
            assert await answer.json() == len("<b>&amp;")

    handlers: dict[str, Handler] = {
        **_HANDLERS,
        "GET length": lambda runs, request: len(request.query["tag"][0]),
    }
    visit(tmp_path, check, handlers=handlers)


def test_a_handler_gets_the_body_and_its_type(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        headers = {"Content-Type": "Application/JSON; charset=utf-8"}
        async with client.post(f"{API_PREFIX}echo", data=b"{}", headers=headers) as answer:
            assert await answer.json() == {
                "query": {},
                "body": "{}",
                "content_type": "application/json",
            }
        headers = {"Content-Type": "text/plain"}
        async with client.post(f"{API_PREFIX}echo", data=b"{}", headers=headers) as answer:
            assert (await answer.json())["content_type"] == "text/plain"

    visit(tmp_path, check, handlers=_HANDLERS)


def test_an_image_is_sent_as_it_was_recorded(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        async with client.get(f"{API_PREFIX}image") as answer:
            assert (answer.headers["Content-Type"], await answer.read()) == (
                "image/png",
                b"\x89PNG",
            )

    visit(tmp_path, check, handlers=_HANDLERS)


def test_a_large_answer_is_compressed_for_whom_takes_it(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        for encoding in ("gzip", "identity"):
            async with client.get(
                f"{API_PREFIX}large", headers={"Accept-Encoding": encoding}
            ) as answer:
                assert answer.headers.get("Content-Encoding", "identity") == encoding
                assert await answer.json() == ["large"] * 10_000

    visit(tmp_path, check, handlers=_HANDLERS)


def test_an_answer_that_fits_a_packet_is_not_compressed(tmp_path: Path) -> None:
    handlers: dict[str, Handler] = {  # with the quotes and the end of the line
        f"GET {size}": lambda *_, size=size: "x" * (size - 3) for size in (1023, 1024)
    }

    async def check(client: Client) -> None:
        for size, encoding in ((1023, None), (1024, "gzip")):
            async with client.get(
                f"{API_PREFIX}{size}", headers={"Accept-Encoding": "gzip"}
            ) as answer:
                assert answer.headers.get("Content-Encoding") == encoding
                assert len(await answer.read()) == size

    visit(tmp_path, check, handlers=handlers)


def test_a_large_page_is_compressed_and_an_image_is_not(tmp_path: Path) -> None:
    content = b"<p>large</p>" * 1_000
    handlers: dict[str, Handler] = {
        "GET page": lambda *_: EncodedAnswer(content, "text/html; charset=utf-8"),
        "GET image": lambda *_: EncodedAnswer(content, "image/png"),
    }

    async def check(client: Client) -> None:
        for path, encoding in (("page", "gzip"), ("image", None)):
            async with client.get(
                f"{API_PREFIX}{path}", headers={"Accept-Encoding": "gzip"}
            ) as answer:
                assert answer.headers.get("Content-Encoding") == encoding
                assert await answer.read() == content

    visit(tmp_path, check, handlers=handlers)


def test_an_error_of_a_page_is_a_page(tmp_path: Path) -> None:
    def fail(runs: object, request: ApiRequest) -> Any:
        raise PageError("./a is not a run", "<p>运行 ./a</p>".encode(), 404)

    async def check(client: Client) -> None:
        async with client.get(f"{API_PREFIX}fail") as answer:
            assert (answer.status, answer.headers["Content-Type"]) == (
                404,
                "text/html; charset=utf-8",
            )
            assert await answer.text() == "<p>运行 ./a</p>"

    visit(tmp_path, check, handlers={"GET fail": fail})


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "text"),
    [
        ("GET", "/nothing", 404, "50545001", "404 Not Found."),
        ("GET", "/nothing/", 404, "50545001", "404 Not Found."),
        ("GET", f"{API_PREFIX}nothing", 404, "50545001", "404 Not Found."),
        ("GET", f"{API_PREFIX}echo/", 404, "50545001", "404 Not Found."),
        ("GET", API_PREFIX.rstrip("/"), 404, "50545001", "404 Not Found."),
        ("PUT", f"{API_PREFIX}echo", 405, "50545002", "405 Method Not Allowed."),
        ("OPTIONS", f"{API_PREFIX}echo", 405, "50545002", "405 Method Not Allowed."),
        ("POST", "/", 405, "50545002", "405 Method Not Allowed."),
        ("DELETE", f"{API_PREFIX}nothing", 404, "50545001", "404 Not Found."),
        ("PATCH", f"{API_PREFIX}nothing", 405, "50545002", "405 Method Not Allowed."),
        ("OPTIONS", "/nothing", 405, "50545002", "405 Method Not Allowed."),
        ("POST", "/static/nothing.js", 405, "50545002", "405 Method Not Allowed."),
        ("GET", f"{API_PREFIX}refuse", 400, "50545005", "Train job is not exist."),
        ("GET", f"{API_PREFIX}fail", 500, "50540000", "System error."),
    ],
)
def test_errors_are_the_front_ends(
    tmp_path: Path, method: str, path: str, status: int, code: str, text: str
) -> None:
    async def check(client: Client) -> None:
        async with client.request(method, path) as answer:
            assert answer.status == status
            assert await answer.json() == {"error_code": code, "error_msg": text}

    visit(tmp_path, check, handlers=_HANDLERS)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/runs",
        "/static/js/app.01234567.js",
        f"{API_PREFIX}numbers",
        f"{API_PREFIX}refuse",
        "/nothing",
    ],
)
def test_a_head_request_is_answered_as_a_get_without_the_body(tmp_path: Path, path: str) -> None:
    async def check(client: Client) -> None:
        async with client.get(path) as answer:
            status, headers, body = answer.status, answer.headers, await answer.read()
        async with client.head(path) as answer:
            assert (answer.status, await answer.read()) == (status, b"")
            assert answer.headers["Content-Type"] == headers["Content-Type"]
            assert answer.headers["Content-Length"] == headers["Content-Length"]
            assert answer.headers.get("ETag") == headers.get("ETag")
        assert body

    visit(tmp_path, check, handlers=_HANDLERS)


def test_a_head_request_of_an_endpoint_without_get_is_refused(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        async with client.head(f"{API_PREFIX}post") as answer:
            assert answer.status == 405

    visit(tmp_path, check, handlers={"POST post": _echo})


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/runs/", "../runs"),
        ("/runs.js/?x=1", "../runs.js?x=1"),
        ("/only/WyIuL2EiXQ", "./WyIuL2EiXQ/"),
        ("/only/WyIuL2EiXQ/runs/", "../runs"),
    ],
)
def test_an_address_with_a_slash_too_many_or_too_few_leads_to_its_page(
    tmp_path: Path, path: str, location: str
) -> None:
    async def check(client: Client) -> None:
        async with client.get(path, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (302, location)
        async with client.get(path) as answer:
            assert answer.status == 200

    visit(tmp_path, check)


@pytest.mark.parametrize(
    ("path", "table"),
    [("/nothing", "runs"), ("/nothing/", "../runs"), ("/nothing/at/all", "../../runs")],
)
def test_a_browser_gets_a_page_where_there_is_none(tmp_path: Path, path: str, table: str) -> None:
    headers = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

    async def check(client: Client) -> None:
        async with client.get(path, headers=headers) as answer:
            assert (answer.status, answer.content_type) == (404, "text/html")
            assert f'<a href="{table}">' in await answer.text()
        async with client.get(f"{API_PREFIX}nothing", headers=headers) as answer:
            assert (answer.status, answer.content_type) == (404, "application/json")

    visit(tmp_path, check)


def test_a_mistake_of_ours_is_logged_and_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(client: Client) -> None:
        async with client.get(f"{API_PREFIX}fail") as answer:
            assert "mistake" not in await answer.text()

    visit(tmp_path, check, handlers=_HANDLERS)

    (record,) = [
        record for record in caplog.records if record.name == "mindsummary_lightning.viewer.app"
    ]
    assert "/fail could not be answered" in record.message
    assert "a mistake of ours" in str(record.exc_info)


def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        async with client.post(f"{API_PREFIX}echo", data=io.BytesIO(bytes(17 * 2**20))) as answer:
            assert answer.status == 413
            assert (await answer.json())["error_code"] == "50540000"

    visit(tmp_path, check, handlers=_HANDLERS)


def test_a_slow_run_does_not_stop_the_page(tmp_path: Path) -> None:
    release = threading.Event()
    handlers: dict[str, Handler] = {**_HANDLERS, "GET slow": lambda runs, request: release.wait(60)}

    async def check(client: Client) -> None:
        slow = [asyncio.create_task(client.get(f"{API_PREFIX}slow").__aenter__()) for _ in range(4)]
        async with client.get("/") as page, client.get(f"{API_PREFIX}echo") as answer:
            assert (page.status, answer.status) == (200, 200)
        assert not any(task.done() for task in slow)
        release.set()
        assert [(await task).status for task in slow] == [200] * 4

    visit(tmp_path, check, handlers=handlers)


def test_a_stuck_read_does_not_keep_the_server(tmp_path: Path) -> None:
    release = threading.Event()
    begun = threading.Event()

    def stall(runs: object, request: ApiRequest) -> Any:
        begun.set()
        release.wait(60)

    async def check(client: Client) -> None:
        asking = asyncio.create_task(client.get(f"{API_PREFIX}stall").__aenter__())
        assert await asyncio.to_thread(begun.wait, 10)
        asking.cancel()

    visit(tmp_path, check, handlers={"GET stall": stall})

    threads = [
        thread for thread in threading.enumerate() if thread.name.startswith("mindsummary-view")
    ]
    assert all(thread.daemon for thread in threads)
    release.set()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


def test_every_endpoint_has_its_function_and_every_page_an_endpoint() -> None:
    functions = {name for handler in pages.page_handlers().values() for name in handler.args}
    served = {name.partition(".")[0] for name in functions}
    assert served == {page.name for page in iter_modules(pages.__path__)}
    for name in functions:
        page, function = name.split(".")
        assert callable(getattr(import_module(f"{pages.__name__}.{page}"), function))


@pytest.mark.slow
def test_the_list_of_runs_needs_neither_numpy_nor_protobuf(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "events.out.events.summary.1700000000.0.host_MS").touch()
    script = """
import sys
from mindsummary_lightning.viewer import app
from mindsummary_lightning.viewer.api import ApiRequest
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from mindsummary_lightning.viewer.pages import page_handlers
answer = page_handlers()["GET datavisual/train-jobs"](LoadedRuns(sys.argv[1]), ApiRequest({"limit": ["20"]}))
assert answer["total"] == 1, answer
print(sorted({"numpy", "google.protobuf"} & set(sys.modules)))
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "[]\n"


def test_an_answer_that_has_grown_is_never_an_older_one(tmp_path: Path) -> None:
    points = [{"step": step, "value": 0.5} for step in range(2000)]

    async def check(client: Client) -> None:
        for number in range(3):
            for encoding in ("gzip", "identity", "gzip"):
                answer = await client.get(
                    f"{API_PREFIX}curve", headers={"Accept-Encoding": encoding}
                )
                assert await answer.json() == {"points": points}
                assert answer.headers.get("Content-Encoding", "identity") == encoding
            points[number]["value"] = -1.0
            points.append({"step": len(points), "value": float(number)})

    visit(tmp_path, check, handlers={"GET curve": lambda *_: {"points": [*map(dict, points)]}})


_TEXTS = st.text(st.sampled_from('<&\u2060a"\\\n/é'), max_size=8)


def _answered(text: str) -> str:
    answer: str = json.loads(without_markup(json.dumps(text)))
    return answer


@given(_TEXTS)
def test_a_text_that_was_answered_is_found_again(text: str) -> None:
    answered = _answered(text)

    assert as_recorded(answered) == text
    # as a browser encodes it
    body = json.dumps({answered: [answered]}, ensure_ascii=False).encode()
    assert json.loads(body_as_recorded(body)) == {text: [text]}


@pytest.mark.parametrize(
    "text", ["<meta http-equiv=refresh>", "</td>", "<!--", "a&lt;b", "&#60;b>", "<<b", "<&lt;"]
)
def test_no_text_begins_a_tag_or_an_entity(text: str) -> None:
    answered = _answered(text)

    assert all(
        answered[index + 1] == "\u2060"
        for index, character in enumerate(answered)
        if character in "<&"
    )
    assert answered.replace("\u2060", "") == text


def test_numbers_and_keys_are_json_as_before() -> None:
    answer = {"a<b": [1, -2.5, None, True], "c": float("nan")}

    assert json.loads(without_markup(json.dumps({"x": 1, **answer}))).keys() == {
        "x",
        "a<\u2060b",
        "c",
    }
