"""Admission of requests: only this page in this browser may ask, and a request must name this very server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.message import Message
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from secrets import compare_digest, token_urlsafe
from typing import Final

from kb_cli.web.answer import WebAnswer, sentence

METHODS: Final = ("GET", "HEAD")
TOKEN: Final = "token"
"""The field of the printed address that has the secret."""
SECURITY: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""


class PageGate:
    """Admits requests that name 127.0.0.1 or localhost with *port*, and that know the secret of this server.

    The secret comes once in the address, `?token=...`, and from then on in a cookie, which no script can read and no
    other site can send. Cookies of one host are common to its ports, so the name of the cookie has the port.
    """

    def __init__(self, port: int) -> None:
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.address = f"http://{self.hosts[0]}/"
        self._cookie = f"kb_{port}"
        self._secret = token_urlsafe(32)

    @property
    def opening(self) -> str:
        """The address that lets a browser in."""
        return f"{self.address}?{TOKEN}={self._secret}"

    def refuses(self, method: str, headers: Message) -> WebAnswer | None:
        """Returns the refusal of a request before its sender is known; None for a request that may go on."""
        hosts = headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            got = repr(hosts[0])[:80] if len(hosts) == 1 else f"{len(hosts)} of them"
            return sentence(f"Host: got {got}, needs {self.hosts[0]}", HTTPStatus.MISDIRECTED_REQUEST)
        if method not in METHODS:
            answer = sentence(f"method: got {method[:40]}, needs GET or HEAD", HTTPStatus.METHOD_NOT_ALLOWED)
            return answer._replace(head={"Allow": ", ".join(METHODS)})
        for origin in headers.get_all("Origin") or []:
            if origin not in {f"http://{host}" for host in self.hosts}:
                return sentence(f"Origin: got {origin[:80]!r}, needs this page", HTTPStatus.FORBIDDEN)
        if headers.get("Transfer-Encoding") or headers.get("Content-Length", "0") != "0":
            return sentence("body: got one, needs none", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return None

    def lets_in(self, path: str, tokens: Sequence[str]) -> WebAnswer | None:
        """Returns the answer to a request of *path* with *tokens*: a cookie for the right one; None where it has
        none.
        """
        if path != "/" or not tokens:
            return None
        if len(tokens) != 1 or not compare_digest(tokens[0].encode(), self._secret.encode()):
            return self.unknown()
        cookie = f"{self._cookie}={self._secret}; Path=/; HttpOnly; SameSite=Strict"
        return WebAnswer(b"", status=HTTPStatus.SEE_OTHER, head={"Location": "/", "Set-Cookie": cookie})

    def knows(self, headers: Message) -> bool:
        """Whether a request has the cookie."""
        for line in headers.get_all("Cookie") or []:
            try:
                found = SimpleCookie(line).get(self._cookie)
            except CookieError:  # of somebody else on this host
                continue
            if found is not None and compare_digest(found.value.encode(), self._secret.encode()):
                return True
        return False

    @staticmethod
    def unknown() -> WebAnswer:
        """Returns the answer to a request without the secret."""
        text = "token: got none of this server, needs the address that kb web printed; open that one again"
        return sentence(text, HTTPStatus.UNAUTHORIZED)
