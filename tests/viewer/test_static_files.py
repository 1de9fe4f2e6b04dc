from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from tests.viewer.pages_client import Client, visit
from tests.viewer.small_frontend import SCRIPT

_SCRIPT = "/static/js/app.01234567.js"


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/", "text/html; charset=utf-8"),
        (_SCRIPT, "text/javascript; charset=utf-8"),
        ("/static/js/graphvizlib.wasm", "application/wasm"),
        ("/graphvizlib.wasm", "application/wasm"),
    ],
)
def test_files_have_their_types(tmp_path: Path, path: str, media_type: str) -> None:
    async def check(client: Client) -> None:
        async with client.get(path) as answer:
            assert (answer.status, answer.headers["Content-Type"]) == (200, media_type)

    visit(tmp_path, check)


def test_a_file_with_a_hash_in_its_name_is_kept_by_browsers_and_the_others_are_asked_for_again(
    tmp_path: Path,
) -> None:
    async def check(client: Client) -> None:
        async with client.get(_SCRIPT) as answer:
            assert "immutable" in answer.headers["Cache-Control"]
        for path in ("/", "/graphvizlib.wasm"):
            async with client.get(path) as answer:
                assert answer.headers["Cache-Control"] == "private, no-cache"
                tag = answer.headers["ETag"]
            async with client.get(path, headers={"If-None-Match": tag}) as answer:
                assert (answer.status, await answer.read()) == (304, b"")
                assert answer.headers["ETag"] == tag
                assert answer.headers["Cache-Control"] == "private, no-cache"
            async with client.get(path, headers={"If-None-Match": '"another"'}) as answer:
                assert (answer.status, answer.headers["ETag"]) == (200, tag)

    visit(tmp_path, check)


def test_a_compressed_copy_is_sent_to_whom_it_suits(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        for encoding in ("gzip", ""):
            async with client.get(_SCRIPT, headers={"Accept-Encoding": encoding}) as answer:
                assert answer.headers.get("Content-Encoding", "") == encoding
                assert await answer.text() == SCRIPT

    visit(tmp_path, check)


def test_the_front_end_is_told_the_browsers_language_before_its_own_scripts(tmp_path: Path) -> None:
    async def check(client: Client) -> None:
        async with client.get("/") as answer:
            first, second, *others = re.findall('<script src="([^"]+)"', await answer.text())
            assert (first, second, len(others)) == ("language.js", "back.js", 1)
        async with client.get("/language.js") as answer:
            assert (answer.status, answer.headers["Content-Type"]) == (
                200,
                "text/javascript; charset=utf-8",
            )
            assert "milang" in await answer.text()

    visit(tmp_path, check)


def test_the_only_script_in_the_page_itself_is_the_one_that_the_policy_names(
    tmp_path: Path,
) -> None:
    async def check(client: Client) -> None:
        async with client.get("/") as answer:
            page, policy = await answer.text(), answer.headers["Content-Security-Policy"]
        (script,) = [text for text in re.findall(r"<script[^>]*>(.*?)</script>", page) if text]
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy

    visit(tmp_path, check)


@pytest.mark.parametrize("path", ["/", "/runs", "/only/WyIuL2EiXQ/"])
def test_without_the_front_end_the_table_of_runs_is_shown_and_knows_it(
    tmp_path: Path, path: str
) -> None:
    async def check(client: Client) -> None:
        async with client.get(path) as answer:
            page = await answer.text()
            assert (answer.status, answer.content_type) == (200, "text/html")
        assert '<body data-front-end="missing">' in page
        assert '<script src="runs.js">' in page
        async with client.get(f"{path.rpartition('/')[0]}/runs.js") as answer:
            assert "--wheel" in await answer.text()

    visit(tmp_path, check, frontend=None)


def test_with_the_front_end_the_table_of_runs_does_not_say_that_it_is_missing(
    tmp_path: Path,
) -> None:
    async def check(client: Client) -> None:
        async with client.get("/runs") as answer:
            assert "<body>" in await answer.text()

    visit(tmp_path, check)


@pytest.mark.parametrize(
    "path",
    [
        "/index.html",
        "/favicon.ico",
        "/static/",
        "/static/js/",
        "/static/../index.html",
        "/static/%2e%2e/index.html",
        "/static/js/app.01234567.js.gz",
        "/static/js/..%2f..%2f..%2fsecret.txt",
        "/static/js/app.01234567.js%00",
        "/static//js/app.01234567.js",
        "/etc/passwd",
    ],
)
def test_what_is_not_one_of_the_files_is_not_found(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")

    async def check(client: Client) -> None:
        from yarl import URL

        async with client.session.get(
            URL(f"http://127.0.0.1:{client.port}{path}", encoded=True)
        ) as answer:
            assert answer.status == 404
            assert await answer.json() == {"error_code": "50545001", "error_msg": "404 Not Found."}

    visit(tmp_path, check)
