"""Access to the pages: a token instead of accounts, the hosts that are answered, and the headers that keep sites apart.

The token is part of the printed address. Its first use sets a cookie, which every later request carries. A page inside
a notebook is another site's frame, where browsers refuse that cookie, so such pages carry the token in their path,
``/embed/<token>/``; the front end sends all requests below its own path.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from aiohttp import web

TOKEN_PARAMETER = "access"  # not "token": JupyterHub reads that one itself
EMBED_PREFIX = "/embed/"

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?", re.IGNORECASE)
_SINGLE_USE_S = 120.0  # until a browser has started
_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Context")

_MISSING_TOKEN = "403 Forbidden. Open the address that `mindsummary view` printed; its token changes with every start."

# A redirect would not do: a browser that was sent here by another site would follow it without the new cookie.
_FORGET_TOKEN = "location.replace(location.pathname+location.hash)"
_COOKIE_PAGE = f'<!DOCTYPE html><html lang="en"><title>MindInsight</title><script>{_FORGET_TOKEN}</script></html>\n'
_SCRIPT_HASH = base64.b64encode(hashlib.sha256(_FORGET_TOKEN.encode()).digest()).decode()

_PAGE_POLICY = (
    "default-src 'none'; "
    "script-src 'self' 'unsafe-eval'; "  # its WebAssembly wrapper and its charts compile functions
    "style-src 'self' 'unsafe-inline'; "  # Vue components style their elements
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'"
)
_COOKIE_POLICY = f"default-src 'none'; script-src 'sha256-{_SCRIPT_HASH}'"
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Download-Options": "noopen",
    "X-XSS-Protection": "1; mode=block",
    "Referrer-Policy": "no-referrer",  # an address may hold the token
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "mindsummary-lightning",
}


class CheckedRequest(NamedTuple):
    """A request after the check."""

    path: str  # decoded, without the prefix of an embedded page
    answer: web.Response | None  # if the check already has one: a refusal, or the page that sets the cookie
    headers: Mapping[str, str]  # of whatever is answered; a more specific value of the answer itself wins


class Access:
    """The check that every request passes before anything else looks at it.

    Args:
        token: what a visitor must know; ``None`` answers everyone who reaches the port.
        names: host names of this server beside ``localhost``; an IP address is always accepted as host, because a
            page of another site cannot have one that is not its own.
    """

    def __init__(self, token: str | None, names: Iterable[str] = ()) -> None:
        self._token = token
        self._names = frozenset(name.lower() for name in names)
        self._single_use: dict[str, float] = {}  # token -> end of its life on the monotonic clock

    def single_use_token(self) -> str | None:
        """A token that is accepted once and soon, for a command line, which every user of a machine can read."""
        if self._token is None:
            return None
        token = new_token()
        self._single_use[token] = time.monotonic() + _SINGLE_USE_S
        return token

    def check(self, request: web.Request) -> CheckedRequest:
        """Decide whether a request is answered."""
        path, is_embedded = self._without_embed_prefix(request.path)
        headers = _headers(_PAGE_POLICY, is_embedded)
        host = _HOST.fullmatch(request.headers.get("Host", ""))
        if host is None or not self._is_known(host[1].lower(), request):
            answer = _refusal("this host name is not one of the viewer's; open the address that it printed")
        elif self._token is None or is_embedded:
            answer = None
        elif path == "/" and TOKEN_PARAMETER in request.query:
            given = request.query[TOKEN_PARAMETER]
            is_right = _is_same(given, self._token) or time.monotonic() < self._single_use.pop(given, 0.0)
            answer = self._set_cookie(host, request) if is_right else _refusal(_MISSING_TOKEN)
            headers = _headers(_COOKIE_POLICY, is_embedded)
        else:
            answer = None if self._has_cookie(host, request) else _refusal(_MISSING_TOKEN)
        return CheckedRequest(path, answer, headers)

    def _without_embed_prefix(self, path: str) -> tuple[str, bool]:
        token, slash, rest = path.removeprefix(EMBED_PREFIX).partition("/")
        if self._token is None or not path.startswith(EMBED_PREFIX) or not slash or not _is_same(token, self._token):
            return path, False
        return f"/{rest}", True

    def _is_known(self, name: str, request: web.Request) -> bool:
        if name == "localhost" or name.endswith(".localhost") or name in self._names or _is_address(name):
            return True
        # A proxy such as JupyterHub's passes on the name that its users see. A page of another site could claim to be
        # one, too, but has no token.
        return self._token is not None and any(header in request.headers for header in _FORWARDED)

    def _set_cookie(self, host: re.Match[str], request: web.Request) -> web.Response:
        assert self._token is not None
        # Without a path it holds for the path that the browser sees, a proxy's prefix included.
        cookie = f"{_cookie_name(host)}={self._token}; HttpOnly; SameSite=Strict"
        if request.headers.get("X-Forwarded-Proto", "").lower() == "https":
            cookie += "; Secure"
        return web.Response(text=_COOKIE_PAGE, content_type="text/html", headers={"Set-Cookie": cookie})

    def _has_cookie(self, host: re.Match[str], request: web.Request) -> bool:
        assert self._token is not None
        pairs = (pair.partition("=") for pair in request.headers.get("Cookie", "").split(";"))
        values = [value.strip() for name, _, value in pairs if name.strip() == _cookie_name(host)]
        return any(_is_same(value, self._token) for value in values)


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def _refusal(reason: str) -> web.Response:
    """The answer to someone who may not see the runs."""
    return web.Response(status=HTTPStatus.FORBIDDEN, text=f"{reason}\n")


def _headers(policy: str, is_embedded: bool) -> dict[str, str]:
    if is_embedded:  # whoever frames the page has the token
        return {**_HEADERS, "Content-Security-Policy": policy}
    return {**_HEADERS, "X-Frame-Options": "SAMEORIGIN", "Content-Security-Policy": f"{policy}; frame-ancestors 'self'"}


def _cookie_name(host: re.Match[str]) -> str:
    # Browsers send a cookie to every port of a host. The port is the one that the browser sees, which differs from ours
    # at the other end of a tunnel.
    return f"mindsummary-{host[2] or 'view'}"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogatepass"), expected.encode())
