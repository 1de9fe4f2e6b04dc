"""Requests that no page sends: known paths and parameters with wrong, hostile and random values."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, quote_from_bytes

_METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "BREW")
_NAMES = (
    "train_id", "tag", "step", "dims", "detail", "offset", "limit", "name", "search", "mode",
    "plugin_name", "type",
    "interval_id", "manual_update", "wt", "access", "",
)  # fmt: skip
_VALUES = (
    "", "./", ".", "..", "../..", "./../../etc/passwd", "/etc/passwd", "./version_0",
    "./version_0/..", "C:\\x", "\0",
    "0", "-1", "1", "10", "999", "1000", "99999999999999999999", "1e400", "nan", "true", "false",
    "null", "scalar",
    "image", "histogram", "tensor", "graph", "normal", "optimize", "interval", "final", "stats",
    "data", "[:]", "[:,:]",
    "[0,:]", "[[[[", "[1:2:3:4]", "[999999999,:]", "%", "%%", "é", "\ud800", "\u202e", "💥",
    "a" * 5000, "{}", "[]",
    "' OR 1=1", "<script>", "${x}", "%s%n", "loss/auto/scalar", "conv1.weight/auto/histogram",
    "input_data/auto/image",
)  # fmt: skip
_PATHS = (
    "/", "//", "/static/", "/static/js/graphvizlib.wasm", "/graphvizlib.wasm", "/index.html",
    "/favicon.ico",
    "/static/../../../../etc/passwd", "/static/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2fetc%2fpasswd", "/embed/x/",
    "/etc/passwd", "//etc/passwd", "/v1/", "/v1/mindinsight",
    "/v1/mindinsight/", "/v1/mindinsight/../../etc/passwd", "/%00", "/%ff", "*",
)  # fmt: skip
_HEADERS = {
    "Range": ("bytes=0-", "bytes=-1", "bytes=5-1", "bytes=a-b", "bytes=0-1,3-4", "lines=1"),
    "If-None-Match": ('"x"', "*", "x", 'W/"x"'),
    "If-Modified-Since": ("Thu, 01 Jan 1970 00:00:00 GMT", "yesterday"),
    "Accept-Encoding": ("gzip", "gzip;q=0", "br, *", "", "gzip" * 100),
    "Content-Type": (
        "application/json",
        "text/plain",
        "multipart/form-data; boundary=x",
        "/;;=",
        "",
    ),
    "X-Forwarded-Host": ("evil.example",),
    "Cookie": ("a=b", "=;=;", "x" * 2000),
    "Expect": ("100-continue", "nothing"),
    "Origin": ("https://evil.example", "null"),
    "Upgrade": ("websocket", "h2c"),
    "Authorization": ("Bearer x", "Basic ???"),
}
_BODIES: tuple[object, ...] = (
    None, {}, [], "", 0, True, {"train_ids": []}, {"train_ids": ["./version_0", 1, None]},
    {"train_ids": {"a": 1}},
    {"lineage_type": {"in": ["model"]}}, {"lineage_type": {"in": "model"}}, {"sorted_name": "loss"},
    {"sorted_name": "metric/x", "sorted_type": "descending", "limit": 10, "offset": 0},
    {"offset": 1e300},
    {"summary_dir": {"in": ["../.."], "not_in": [[]]}}, {"learning_rate": {"ge": "x", "le": None}},
    {"tag": 3},
    {"tag": 11, "remark": "x"}, {"remark": "../../x\0"}, {"remark": "é" * 500}, {"tag": True},
    {"x": {"x": {"x": []}}},
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A request.

    Attributes:
        target: path and query as they are sent.
    """

    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def random_request(
    source: random.Random, endpoints: Sequence[tuple[str, str]], values: Mapping[str, Sequence[str]]
) -> Asked:
    """One request.

    Args:
        source: of randomness.
        endpoints: methods and paths that the server answers.
        values: for parameters the values that mean something there, such as names of runs and tags.
    """
    method, path = source.choice(endpoints)
    if source.random() < 0.15:
        path = source.choice(_PATHS)
    if source.random() < 0.25:
        method = source.choice(_METHODS)
    if source.random() < 0.05:
        path += source.choice(("/", "/..", "%00", ".json", "/x", "?", "#x"))
    names = [name for name in values if source.random() < 0.7]
    names += source.choices(_NAMES, k=source.choice((0, 0, 1, 2, 20)))
    pairs = [
        f"{name}={_quoted(source, _value(source, values.get(name, _VALUES)))}" for name in names
    ]
    headers = {
        name: source.choice(texts) for name, texts in _HEADERS.items() if source.random() < 0.04
    }
    body = _body(source) if method in ("POST", "PUT", "PATCH") or source.random() < 0.05 else b""
    return Asked(method, f"{path}?{'&'.join(pairs)}" if pairs else path, headers, body)


def _value(source: random.Random, known: Sequence[str]) -> str:
    return source.choice(known if source.random() < 0.8 else _VALUES)


def _quoted(source: random.Random, value: str) -> str:
    if source.random() < 0.05:
        return quote_from_bytes(source.randbytes(source.randrange(1, 20)))
    return quote(value, safe="", errors="surrogatepass")


def _body(source: random.Random) -> bytes:
    if source.random() < 0.1:
        return source.randbytes(source.randrange(200))
    text = json.dumps(source.choice(_BODIES))
    if source.random() < 0.2:
        cut = source.randrange(len(text) + 1)
        text = text[:cut] + source.choice(("", "NaN", "[" * 2000, "\0")) + text[cut:]
    return text.encode()
