"""Bounds of connections: how many there are at once, and how long and how large a request may be.

Every other user of the machine can connect, so a connection costs little until its request has shown the secret.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from threading import Lock
from time import monotonic
from typing import Any, Final

from kb_cli.web.answer import sentence
from kb_cli.web.request_checks import SECURITY

MOST_CONNECTIONS: Final = 64
"""The most connections at once. Source: assumed; a browser opens six, and each page that is seen holds one of them."""
MOST_LINE_NBYTES: Final = 64 << 10
"""The most bytes of the line with the address. Source: assumed; a window of 2,000 lanes has some 16 KB."""
MOST_HEAD_NBYTES: Final = 128 << 10
"""The most bytes of a request's line and headers. Source: assumed; other servers of this host may have long cookies."""
REQUEST_S: Final = 10.0
"""Seconds in which a request has to be whole, from its first byte, or from the begin of the connection."""
IDLE_S: Final = 60.0
"""Seconds that an admitted connection may be silent between two requests."""
ANSWER_S: Final = 60.0
"""Seconds in which a client has to take an answer."""
REFUSAL_S: Final = 1.0
"""Seconds in which a client has to take a refusal, and in which what it still sends is dropped."""


class LateRequestError(Exception):
    """Raised for a request that is not whole in time. `is_begun` says whether any byte of it has come."""

    def __init__(self, is_begun: bool) -> None:
        super().__init__(is_begun)
        self.is_begun = is_begun


class LargeRequestError(Exception):
    """Raised for a request whose line and headers have too many bytes."""


class Requests:
    """The requests of *connection*, each with a limit of time and of bytes. `begin` starts the next one.

    `file` has their bytes. Its methods raise LateRequestError and LargeRequestError.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._bytes = _RequestBytes(connection)
        self.file = io.BufferedReader(self._bytes)
        self._is_first = True

    def begin(self) -> None:
        """Begins a request: the first one of the connection, or one after another."""
        has_begun = self._has_bytes()
        wait_s = REQUEST_S if self._is_first or has_begun else IDLE_S
        self._is_first = False
        self._bytes.begin(monotonic() + wait_s, has_begun)

    def _has_bytes(self) -> bool:
        """Whether bytes of the request have come together with the request before it."""
        with self._bytes.paused():
            return bool(self.file.peek(1))


class _RequestBytes(io.RawIOBase):
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until, self._has_begun, self._received = 0.0, False, 0
        self._is_paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Reads nothing from the connection within the `with`."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def begin(self, until: float, has_begun: bool) -> None:
        self._until, self._has_begun, self._received = until, has_begun, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        if self._is_paused:
            return None
        if self._received > MOST_HEAD_NBYTES:
            raise LargeRequestError
        left_s = self._until - monotonic()
        if left_s <= 0:
            raise LateRequestError(self._has_begun)
        self._connection.settimeout(left_s)
        try:
            found = self._connection.recv_into(buffer)
        except TimeoutError:
            raise LateRequestError(self._has_begun) from None
        if not self._has_begun:
            self._until, self._has_begun = min(self._until, monotonic() + REQUEST_S), True
        self._received += found
        return found


class Connections:
    """The open connections of a server, at most *most*, each a stranger until it is admitted."""

    def __init__(self, most: int = MOST_CONNECTIONS) -> None:
        self._most = most
        self._lock = Lock()
        self._is_admitted: dict[socket.socket, bool] = {}

    def add(self, connection: socket.socket) -> bool:
        """Adds *connection*, and ends the oldest stranger where there is no room. Returns False, and adds nothing,
        where all others are admitted.
        """
        with self._lock:
            if len(self._is_admitted) >= self._most:
                oldest = next((each for each, is_admitted in self._is_admitted.items() if not is_admitted), None)
                if oldest is None:
                    return False
                del self._is_admitted[oldest]
                with suppress(OSError):  # it has ended meanwhile
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end of the connection
            self._is_admitted[connection] = False
            return True

    def admit(self, connection: socket.socket) -> None:
        """Notes that a request of *connection* has shown the secret."""
        with self._lock:
            if connection in self._is_admitted:
                self._is_admitted[connection] = True

    def remove(self, connection: socket.socket) -> None:
        """Forgets *connection*, which has ended."""
        with self._lock:
            self._is_admitted.pop(connection, None)


def refuse(connection: socket.socket) -> None:
    """Answers that the server is busy, without waiting for the request or for the client."""
    answer = sentence(
        f"kb web: got more than {MOST_CONNECTIONS} connections at once, needs fewer; close pages of kb web",
        HTTPStatus.SERVICE_UNAVAILABLE,
    )
    head = {
        **SECURITY,
        "Content-Type": answer.kind,
        "Content-Length": str(len(answer.body)),
        "Retry-After": "1",
        "Connection": "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    with suppress(OSError):  # the client has gone, or takes nothing
        connection.setblocking(False)
        connection.send(f"HTTP/1.1 503 Service Unavailable\r\n{lines}\r\n".encode() + answer.body)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(MOST_HEAD_NBYTES)  # what is left unread would take the answer from the client


def drop_rest(connection: socket.socket) -> None:
    """Ends *connection* behind an answer. Drops what still comes, because unread bytes would take the answer away."""
    until = monotonic() + REFUSAL_S
    with suppress(OSError):  # the client has gone, or goes on sending
        connection.shutdown(socket.SHUT_WR)
        while (left_s := until - monotonic()) > 0:
            connection.settimeout(left_s)
            if not connection.recv(MOST_HEAD_NBYTES):
                return
