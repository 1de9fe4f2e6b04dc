from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mindsummary_lightning.viewer import access as access_module
from mindsummary_lightning.viewer.access import Access
from mindsummary_lightning.viewer.app import API_PREFIX
from tests.viewer.pages_client import Client, visit

_TOKEN = "a-token"
_HANDLERS = {"GET secret": lambda runs, request: {"learning_rate": 0.1}}
_ADDRESSES = ("/", "/static/js/app.01234567.js", "/graphvizlib.wasm", f"{API_PREFIX}secret", "/nothing")


async def _status(client: Client, path: str, headers: Mapping[str, str] | None = None) -> int:
    async with client.get(path, headers=headers) as answer:
        return answer.status


@pytest.mark.parametrize("path", _ADDRESSES)
def test_nothing_is_answered_without_the_token(tmp_path: Path, path: str) -> None:
    async def check(client: Client) -> None:
        async with client.get(path) as answer:
            assert answer.status == 403
            assert "learning_rate" not in await answer.text()

    visit(tmp_path, check, handlers=_HANDLERS, access=Access(_TOKEN))


def test_the_token_of_the_address_sets_a_cookie_that_opens_everything(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        async with client.get(f"/?access={_TOKEN}") as answer:
            cookie = answer.headers["Set-Cookie"]
            assert answer.status == 200
        assert cookie.startswith(f"mindsummary-{client.port}=")
        assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
        assert [await _status(client, path) for path in _ADDRESSES] == [200, 200, 200, 200, 404]

    visit(tmp_path, check, handlers=_HANDLERS, access=Access(_TOKEN))


@pytest.mark.parametrize("given", ["", "a-toke", "a-token2", "%ff", "ä"])
def test_a_wrong_token_sets_no_cookie(tmp_path: Path, given: str) -> None:
    async def check(client: Client) -> None:
        async with client.get(f"/?access={given}") as answer:
            assert answer.status == 403
            assert "Set-Cookie" not in answer.headers
        assert await _status(client, "/", {"Cookie": f"mindsummary-{client.port}={given}"}) == 403

    visit(tmp_path, check, access=Access(_TOKEN))


def test_the_cookie_of_another_port_is_not_taken(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        assert await _status(client, "/", {"Cookie": f"mindsummary-1={_TOKEN}"}) == 403
        both = f"theirs={{bad; mindsummary-1=x; mindsummary-{client.port}={_TOKEN}"
        assert await _status(client, "/", {"Cookie": both}) == 200

    visit(tmp_path, check, access=Access(_TOKEN))


def test_a_single_use_token_opens_once_and_not_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(_TOKEN)
    first, late = access.single_use_token(), access.single_use_token()

    async def check(client: Client) -> None:
        assert await _status(client, f"/?access={first}") == 200
        client.session.cookie_jar.clear()
        assert await _status(client, f"/?access={first}") == 403
        now = access_module.time.monotonic()
        monkeypatch.setattr(access_module.time, "monotonic", lambda: now + 121)
        assert await _status(client, f"/?access={late}") == 403

    visit(tmp_path, check, access=access)


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
        ("evil.example:8080", 403),
        ("localhost.evil.example", 403),
        ("login7.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("user@127.0.0.1", 403),
        ("127.0.0.1:8080:80", 403),
        ("", 403),
    ],
)
def test_only_hosts_that_another_site_cannot_be_are_answered(tmp_path: Path, host: str, status: int) -> None:
    async def check(client: Client) -> None:
        assert await _status(client, "/", {"Host": host, "X-Forwarded-Host": host}) == status

    visit(tmp_path, check, access=Access(None, names=["login7"]))


def test_another_host_needs_a_proxy_and_the_token(tmp_path: Path) -> None:
    host = {"Host": "hub.example"}
    cookie = {"Cookie": f"mindsummary-view={_TOKEN}"}
    proxy = {"X-Forwarded-Proto": "https"}

    async def check(client: Client) -> None:
        assert await _status(client, "/", {**host, **cookie}) == 403
        assert await _status(client, "/", {**host, **proxy}) == 403
        assert await _status(client, "/", {**host, **proxy, **cookie}) == 200
        async with client.get(f"/?access={_TOKEN}", headers={**host, **proxy}) as answer:
            assert "Secure" in answer.headers["Set-Cookie"].split("; ")

    visit(tmp_path, check, access=Access(_TOKEN))


def test_the_cookie_holds_for_the_path_that_the_browser_sees(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        async with client.get(f"/?access={_TOKEN}") as answer:
            assert "path" not in answer.headers["Set-Cookie"].lower()
            assert "location.pathname" in await answer.text()  # keeps a proxy's prefix, forgets the token

    visit(tmp_path, check, access=Access(_TOKEN))


def test_a_page_in_a_notebook_carries_the_token_in_its_path(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        for path in ("/", "/static/js/app.01234567.js", f"{API_PREFIX}secret"):
            async with client.get(f"/embed/{_TOKEN}{path}") as answer:
                assert answer.status == 200
                assert "X-Frame-Options" not in answer.headers
                assert "frame-ancestors" not in answer.headers["Content-Security-Policy"]
        for wrong in ("/embed/other/", "/embed//", f"/embed/{_TOKEN}"):
            assert await _status(client, wrong) == 403

    visit(tmp_path, check, handlers=_HANDLERS, access=Access(_TOKEN))


@pytest.mark.parametrize("path", [*_ADDRESSES, "/?access=wrong"])
@pytest.mark.parametrize("token", [None, _TOKEN])
def test_every_answer_keeps_other_sites_out(tmp_path: Path, path: str, token: str | None) -> None:
    async def check(client: Client) -> None:
        async with client.get(path) as answer:
            headers = answer.headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["X-Frame-Options"] == "SAMEORIGIN"
        assert headers["Content-Security-Policy"].startswith(
            "default-src 'none'; script-src 'self' 'unsafe-eval';"
        ) or ("access" in path)
        assert "Access-Control-Allow-Origin" not in headers

    visit(tmp_path, check, handlers=_HANDLERS, access=Access(token))
