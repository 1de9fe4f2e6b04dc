"""Access control of the viewer: addresses, token, allowed hosts and HTTP headers.

A token replaces accounts. The headers protect the pages from other sites.

The token is the first part of every path, ``/<token>/``. The front end sends all requests below its
own path. There is no cookie: browsers would send it to every port of the host, and refuse it to a
page that a notebook frames.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote

from aiohttp import web

from mindsummary_lightning.viewer.frontend import FIRST_SCRIPT_HASH

RUN_TABLE, RUN_TABLE_PATH = "table of runs", "runs"
_OF_ALL_RUNS = {
    "runs": "summary-manage",
    "model lineage": "model-traceback",
    "data lineage": "data-traceback",
}
_OF_ONE_RUN = {
    "dashboard": "training-dashboard?id",
    "scalars": "scalar?train_id",
    "histograms": "histogram?train_id",
    "images": "image?train_id",
    "tensors": "tensor?train_id",
    "graph": "graph?train_id",
    "dataset graph": "data-map?train_id",
    "loss landscape": "loss-analysis?train_id",
}

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?", re.IGNORECASE)
_MISSING_TOKEN = (
    "403 Forbidden. Open the address that `mindsummary view` printed. "
    "Its token changes with every start.\n"
    "403 禁止访问。请打开 `mindsummary view` 打印的地址。其中的令牌每次启动都不同。\n"
)
_WRONG_HOST = (
    "403 Forbidden. The viewer does not answer requests for this host name. "
    "Open the address that `mindsummary view` printed. "
    "A proxy must send the header `Host: 127.0.0.1`.\n"
    "403 禁止访问。该主机名不属于此服务。请打开 `mindsummary view` 打印的地址。"
    "代理必须发送请求头 `Host: 127.0.0.1`。\n"
)
_PAGE_POLICY = (
    "default-src 'none'; "
    # Its WebAssembly wrapper and its charts compile functions.
    f"script-src 'self' 'unsafe-eval' '{FIRST_SCRIPT_HASH}'; "
    "style-src 'self' 'unsafe-inline'; "  # Vue components style their elements
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _PAGE_POLICY,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Download-Options": "noopen",
    "X-XSS-Protection": "1; mode=block",
    "Referrer-Policy": "no-referrer",  # an address holds the token
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "mindsummary-lightning",
}
_NOT_FRAMED = {
    "X-Frame-Options": "SAMEORIGIN",
    "Content-Security-Policy": f"{_PAGE_POLICY}; frame-ancestors 'self'",
}


class CheckedRequest(NamedTuple):
    """A request after the access check: its path, a refusal if any, and headers."""

    path: str  # decoded, without the token
    answer: web.Response | None  # a refusal, or the way to the address with its last slash
    # of whatever is answered; a more specific value of the answer itself wins
    headers: Mapping[str, str]


class Access:
    """The access check of all requests, by their token or by their host name.

    Args:
        token: the secret that the path of a request must begin with. With ``None`` every request
            is answered whose ``Host`` header names this server.
        names: host names of this server in addition to ``localhost``, for a server without a token.
            An IP address is always accepted as host, because a page of another site cannot have an
            IP address of this server as its host.
    """

    def __init__(self, token: str | None, names: Iterable[str] = ()) -> None:
        self._token = token
        self._names = frozenset(name.lower() for name in names)

    def check(self, request: web.Request) -> CheckedRequest:
        """Tell whether a request is allowed, by its token or by its host name."""
        # A proxy whose prefix has no last slash (nginx: `location /runs`) leaves two in front.
        asked = request.path.lstrip("/")
        if self._token is None:
            refusal = (
                None
                if self._is_own_host(request.headers.get("Host", ""))
                else _refusal(_WRONG_HOST)
            )
            return CheckedRequest(f"/{asked}", refusal, {**_HEADERS, **_NOT_FRAMED})
        token, slash, path = asked.partition("/")
        if not _is_same(token, self._token):
            return CheckedRequest(
                f"/{asked}", _refusal(_MISSING_TOKEN), {**_HEADERS, **_NOT_FRAMED}
            )
        if not slash:
            return CheckedRequest("/", redirection(request, f"./{token}/"), _HEADERS)
        # Whoever knows the token may be any host, a proxy's for example, and may frame the page, as
        # a notebook does.
        return CheckedRequest(f"/{path}", None, _HEADERS)

    def _is_own_host(self, text: str) -> bool:
        host = _HOST.fullmatch(text)
        if host is None:
            return False
        name = host[1].lower()
        return (
            name == "localhost"
            or name.endswith(".localhost")
            or name in self._names
            or _address(name) is not None
        )


def new_token() -> str:
    """Return a random token of 24 bytes as URL-safe text."""
    return secrets.token_urlsafe(24)


def redirection(request: web.Request, address: str) -> web.Response:
    """Redirect a browser to an address relative to the requested address.

    The query stays. The redirection also works behind a proxy that adds a prefix to the path.
    """
    query = request.rel_url.raw_query_string
    location = f"{address}?{query}" if query else address
    return web.Response(status=HTTPStatus.FOUND, headers={"Location": location})


def _refusal(reason: str) -> web.Response:
    return web.Response(status=HTTPStatus.FORBIDDEN, text=reason)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogatepass"), expected.encode())


def is_loopback(host: str) -> bool:
    """Tell whether a server on ``host`` can be reached from this machine only.

    A host name other than ``localhost`` counts as reachable from other machines.
    """
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def host_names(host: str) -> list[str]:
    """Return the names that a ``Host`` header may have for a server on ``host``.

    ``localhost`` and IP addresses are always accepted and not listed.
    """
    return [] if is_loopback(host) else [host, socket.gethostname(), socket.getfqdn()]


def server_address(host: str, port: int) -> str:
    """Return the URL at which a browser on this machine reaches a server.

    The server listens on ``host`` and ``port``.
    """
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def table_address(server: str, token: str | None) -> str:
    """Return the URL of the viewer's table of runs."""
    return f"{_root(server, token)}/{RUN_TABLE_PATH}"


def _root(server: str, token: str | None) -> str:
    return f"{server}/{token}" if token else server


def page_addresses(
    server: str, token: str | None, train_id: str | None = None
) -> list[tuple[str, str]]:
    """Return names and URLs of the viewer's pages, for ``train_id`` if it is given."""
    start = f"{_root(server, token)}/#/"
    pages = [(name, start + route) for name, route in _OF_ALL_RUNS.items()]
    pages.append((RUN_TABLE, table_address(server, token)))
    if train_id is not None:
        run = quote(train_id, safe="")
        # The pages of a run show the path that the address names.
        pages += [
            (name, f"{start}train-manage/{route}={run}&summaryPath={run}")
            for name, route in _OF_ONE_RUN.items()
        ]
    return pages
