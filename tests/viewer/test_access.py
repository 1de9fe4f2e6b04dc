from __future__ import annotations

import base64
import logging
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from mindsummary_lightning.viewer.access import (
    Access,
    host_names,
    is_loopback,
    new_token,
    page_addresses,
    server_address,
    table_address,
)
from mindsummary_lightning.viewer.app import API_PREFIX
from mindsummary_lightning.viewer.frontend import FIRST_SCRIPT_HASH
from tests.viewer.pages_client import Client, visit

_TOKEN = "a-token"
_HANDLERS = {"GET secret": lambda runs, request: {"learning_rate": 0.1}}
_ADDRESSES = (
    "/",
    "/static/js/app.01234567.js",
    "/graphvizlib.wasm",
    f"{API_PREFIX}secret",
    "/nothing",
)


async def _status(client: Client, path: str, headers: Mapping[str, str] | None = None) -> int:
    async with client.get(path, headers=headers) as answer:
        return answer.status


def test_a_token_has_192_bits_and_is_another_one_each_time() -> None:
    tokens = {new_token() for _ in range(100)}

    assert {len(base64.urlsafe_b64decode(token)) for token in tokens} == {24}
    assert len(tokens) == 100


@pytest.mark.parametrize("path", [*_ADDRESSES, "/a-toke", "/a-toke/", "/a-token2/", "/%ff/", "/ä/"])
def test_nothing_is_answered_without_the_token(tmp_path: Path, path: str) -> None:
    async def check(client: Client) -> None:
        async with client.get(
            path, headers={"Cookie": f"mindsummary-{client.port}={_TOKEN}"}
        ) as answer:
            assert answer.status == 403
            assert "learning_rate" not in await answer.text()

    visit(tmp_path, check, handlers=_HANDLERS, access=Access(_TOKEN))


def test_the_address_without_its_last_slash_leads_to_the_pages(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        async with client.get(f"/{_TOKEN}?x=1", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (302, f"./{_TOKEN}/?x=1")
            assert answer.headers["Cache-Control"] == "no-store"
        assert await _status(client, f"/{_TOKEN}") == 200

    visit(tmp_path, check, handlers=_HANDLERS, access=Access(_TOKEN))


def test_below_the_token_everything_is_answered(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        assert [await _status(client, f"/{_TOKEN}{path}") for path in _ADDRESSES] == [
            200,
            200,
            200,
            200,
            404,
        ]

    visit(tmp_path, check, handlers=_HANDLERS, access=Access(_TOKEN))


@pytest.mark.parametrize("path", [*_ADDRESSES, *(f"/{_TOKEN}{path}" for path in _ADDRESSES)])
def test_no_answer_sets_a_cookie_which_browsers_would_send_to_other_ports(
    tmp_path: Path, path: str
) -> None:
    async def check(client: Client) -> None:
        async with client.get(path) as answer:
            assert "Set-Cookie" not in answer.headers

    visit(tmp_path, check, handlers=_HANDLERS, access=Access(_TOKEN))


def test_whoever_knows_the_token_may_be_any_host_and_may_frame_the_pages(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        for path in ("/", "/static/js/app.01234567.js", f"{API_PREFIX}secret"):
            async with client.get(f"/{_TOKEN}{path}", headers={"Host": "hub.example"}) as answer:
                assert answer.status == 200
                assert "X-Frame-Options" not in answer.headers
                assert "frame-ancestors" not in answer.headers["Content-Security-Policy"]

    visit(tmp_path, check, handlers=_HANDLERS, access=Access(_TOKEN))


def test_a_log_line_about_a_request_does_not_hold_the_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(runs: object, request: object) -> None:
        raise KeyError("a mistake of ours")

    async def check(client: Client) -> None:
        assert await _status(client, f"/{_TOKEN}{API_PREFIX}fail?x=1") == 500

    visit(tmp_path, check, handlers={"GET fail": fail}, access=Access(_TOKEN))

    ours = [record for record in caplog.records if record.name.startswith("mindsummary_lightning")]
    (line,) = map(logging.Formatter().format, ours)  # the test's own server logs each request, too
    assert f"{API_PREFIX}fail?x=1 could not be answered" in line
    assert _TOKEN not in line


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8080", 200),
        ("LOCALHOST", 200),
        ("runs.localhost:8080", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("10.1.2.3", 200),
        ("login7:8080", 200),
        ("LogIn7", 200),
        ("evil.example:8080", 403),
        ("localhost.evil.example", 403),
        ("evillocalhost", 403),
        ("evil-localhost:8080", 403),
        ("login7.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("user@127.0.0.1", 403),
        ("127.0.0.1:8080:80", 403),
        ("", 403),
    ],
)
def test_only_hosts_that_another_site_cannot_be_are_answered(
    tmp_path: Path, host: str, status: int
) -> None:
    async def check(client: Client) -> None:
        assert await _status(client, "/", {"Host": host, "X-Forwarded-Host": host}) == status

    visit(tmp_path, check, access=Access(None, names=["LOGIN7"]))


def test_a_host_that_is_refused_is_told_what_a_proxy_must_send(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        async with client.get("/", headers={"Host": "hub.example"}) as answer:
            assert "Host: 127.0.0.1" in await answer.text()

    visit(tmp_path, check, access=Access(None))


def test_the_machines_name_is_answered_only_where_others_reach_the_server() -> None:
    assert (host_names("127.0.0.1"), host_names("localhost")) == ([], [])
    assert {"0.0.0.0", socket.gethostname()} <= {*host_names("0.0.0.0")}


@pytest.mark.parametrize("path", _ADDRESSES)
@pytest.mark.parametrize("token", [None, _TOKEN])
def test_every_answer_keeps_other_sites_out(tmp_path: Path, path: str, token: str | None) -> None:
    async def check(client: Client) -> None:
        async with client.get(path) as answer:
            headers = answer.headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert (headers["X-XSS-Protection"], headers["X-Download-Options"]) == (
            "1; mode=block",
            "noopen",
        )
        assert headers["Server"] == "mindsummary-lightning"
        is_public = token is None and path in (
            "/",
            "/static/js/app.01234567.js",
            "/graphvizlib.wasm",
        )
        assert (headers["Cache-Control"] == "no-store") is not is_public
        assert headers["X-Frame-Options"] == "SAMEORIGIN"
        policy = dict(rule.split(" ", 1) for rule in headers["Content-Security-Policy"].split("; "))
        assert policy.pop("default-src") == "'none'"
        assert policy.pop("frame-ancestors") == "'self'"
        first_script = f"'{FIRST_SCRIPT_HASH}'"
        allowed = {
            "'self'",
            "'none'",
            "'unsafe-eval'",
            "'unsafe-inline'",
            "data:",
            "blob:",
            first_script,
        }
        assert {source for sources in policy.values() for source in sources.split()} == allowed
        assert (policy["script-src"], policy["connect-src"]) == (
            f"'self' 'unsafe-eval' {first_script}",
            "'self'",
        )
        assert "Access-Control-Allow-Origin" not in headers

    visit(tmp_path, check, handlers=_HANDLERS, access=Access(token))


def test_the_pages_of_a_run_are_told_its_path() -> None:
    pages = dict(page_addresses("http://127.0.0.1:8080", "secret", "./digits/a b&c"))

    route, _, query = pages["scalars"].partition("#")[2].partition("?")
    assert route == "/train-manage/scalar"
    assert parse_qs(query) == {"train_id": ["./digits/a b&c"], "summaryPath": ["./digits/a b&c"]}
    assert pages["runs"] == "http://127.0.0.1:8080/secret/#/summary-manage"


def test_a_run_has_eight_pages_behind_those_of_all_runs() -> None:
    pages = page_addresses("", "t", "./a")

    of_run = "/t/#/train-manage"
    assert pages[:4] == page_addresses("", "t")
    assert pages[4:] == [
        ("dashboard", f"{of_run}/training-dashboard?id=.%2Fa&summaryPath=.%2Fa"),
        ("scalars", f"{of_run}/scalar?train_id=.%2Fa&summaryPath=.%2Fa"),
        ("histograms", f"{of_run}/histogram?train_id=.%2Fa&summaryPath=.%2Fa"),
        ("images", f"{of_run}/image?train_id=.%2Fa&summaryPath=.%2Fa"),
        ("tensors", f"{of_run}/tensor?train_id=.%2Fa&summaryPath=.%2Fa"),
        ("graph", f"{of_run}/graph?train_id=.%2Fa&summaryPath=.%2Fa"),
        ("dataset graph", f"{of_run}/data-map?train_id=.%2Fa&summaryPath=.%2Fa"),
        ("loss landscape", f"{of_run}/loss-analysis?train_id=.%2Fa&summaryPath=.%2Fa"),
    ]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("lab", False),
        ("", False),
    ],
)
def test_only_a_loopback_address_is_for_this_machine_alone(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
    names = [] if expected else [host, socket.gethostname(), socket.getfqdn()]
    assert host_names(host) == names


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:81"),
        ("0.0.0.0", "http://127.0.0.1:81"),
        ("", "http://127.0.0.1:81"),
        ("::", "http://[::1]:81"),
        ("fe80::2", "http://[fe80::2]:81"),
        ("lab", "http://lab:81"),
    ],
)
def test_a_browser_of_this_machine_reaches_every_host(host: str, address: str) -> None:
    assert server_address(host, 81) == address


def test_a_server_without_a_token_has_its_pages_at_the_root() -> None:
    assert table_address("http://x:1", None) == "http://x:1/runs"
    assert table_address("http://x:1", "t") == "http://x:1/t/runs"
    assert page_addresses("http://x:1", None) == [
        ("runs", "http://x:1/#/summary-manage"),
        ("model lineage", "http://x:1/#/model-traceback"),
        ("data lineage", "http://x:1/#/data-traceback"),
        ("table of runs", "http://x:1/runs"),
    ]
