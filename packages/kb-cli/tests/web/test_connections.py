"""Bounds of connections, over sockets: their number, the time and size of a request, and clients that take nothing."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from time import monotonic, sleep

import pytest
from web_client import Client, served

from kb_cli.web import connections
from kb_cli.web.connections import Connections

SHORT_S = 0.4
"""Seconds in which a request has to come in these tests."""


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    with served(tmp_path) as found:
        for name in ("REQUEST_S", "IDLE_S", "ANSWER_S"):
            monkeypatch.setattr(connections, name, SHORT_S)
        yield found


def opened(client: Client) -> socket.socket:
    return socket.create_connection(("127.0.0.1", client.server.server_port), timeout=20)


def request(client: Client, path: str = "/", *headers: str) -> bytes:
    lines = f"GET {path} HTTP/1.1", f"Host: {client.host}", f"Cookie: {client.cookie}", *headers
    return "\r\n".join([*lines, "", ""]).encode()


def answer(connection: socket.socket) -> bytes:
    """All that the server sends until it ends the connection."""
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def sentence(found: bytes) -> tuple[int, str]:
    """The status and the text of the only answer in *found*."""
    head, _, body = found.partition(b"\r\n\r\n")
    assert b"\r\nConnection: close" in head
    return int(head.split()[1]), body.decode()


def drip(connection: socket.socket, text: bytes) -> None:
    """Sends *text* byte by byte, so that the connection is never silent for long, until the server has ended it."""
    for at in range(len(text)):
        with suppress(OSError):
            connection.sendall(text[at : at + 1])
        sleep(0.02)


@pytest.mark.parametrize("part", [b"G", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"], ids=str)
def test_a_request_that_does_not_go_on_is_refused(client: Client, part: bytes) -> None:
    began = monotonic()
    with opened(client) as slow:
        slow.sendall(part)
        assert sentence(answer(slow)) == (
            HTTPStatus.REQUEST_TIMEOUT, "request: got a part within 10 s, needs the whole\n"
        )  # fmt: skip
    assert SHORT_S * 0.9 < monotonic() - began < 10


def test_a_request_that_comes_byte_by_byte_is_refused(client: Client) -> None:
    with opened(client) as slow:
        sending = threading.Thread(target=drip, args=(slow, request(client, "/", "X: " + "x" * 200)))
        sending.start()
        assert sentence(answer(slow))[0] == HTTPStatus.REQUEST_TIMEOUT
        sending.join()


def test_a_connection_without_a_request_ends_without_a_word(client: Client) -> None:
    with opened(client) as silent:
        assert answer(silent) == b""
    with opened(client) as idle:
        idle.sendall(request(client, "/icon.svg"))
        assert answer(idle).startswith(b"HTTP/1.1 200 OK\r\n")  # and ends, with nothing behind it


def test_a_slow_request_behind_another_is_refused(client: Client) -> None:
    with opened(client) as slow:
        slow.sendall(request(client, "/icon.svg") + b"GET /")
        assert b"HTTP/1.1 408 " in answer(slow)


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ([f"X{n}: {'x' * 60_000}" for n in range(3)], "headers: got more than 131072 bytes, needs at most so many\n"),
        ([f"X{n}: x" for n in range(200)], "headers: got too many or too long ones, needs those of a browser\n"),
        ([f"X: {'x' * 70_000}"], "headers: got too many or too long ones, needs those of a browser\n"),
    ],
    ids=["in all", "many", "long"],
)
def test_large_headers_are_refused(client: Client, headers: list[str], text: str) -> None:
    with opened(client) as large:
        large.sendall(request(client, "/", *headers))
        assert sentence(answer(large)) == (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)


def test_an_endless_address_is_refused(client: Client) -> None:
    with opened(client) as large:
        large.sendall(b"GET /" + b"x" * 300_000)
        assert sentence(answer(large)) == (
            HTTPStatus.REQUEST_URI_TOO_LONG, "address: got more than 65536 bytes, needs at most so many\n"
        )  # fmt: skip


@pytest.mark.parametrize(
    "headers", [["Content-Length: 300000"], ["Transfer-Encoding: chunked", "Expect: 100-continue"]]
)
def test_a_body_is_refused_and_the_sender_hears_so(client: Client, headers: list[str]) -> None:
    with opened(client) as large:
        large.sendall(request(client, "/", *headers))
        with suppress(OSError):
            large.sendall(b"x" * 300_000)
        assert sentence(answer(large)) == (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body: got one, needs none\n")


def test_a_stranger_has_one_request(client: Client) -> None:
    with opened(client) as stranger:
        stranger.sendall(f"GET / HTTP/1.1\r\nHost: {client.host}\r\n\r\n".encode() * 2)
        assert sentence(answer(stranger))[0] == HTTPStatus.UNAUTHORIZED


def test_more_connections_than_there_may_be_are_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 30)
    client.server.connections = Connections(2)
    kept = [client.connection() for _ in range(2)]
    for each in kept:
        assert client.sent(each, "/icon.svg").read()
    with opened(client) as refused:
        found = answer(refused)
    assert b"\r\nRetry-After: 1\r\n" in found
    assert sentence(found) == (
        HTTPStatus.SERVICE_UNAVAILABLE,
        "kb web: got more than 64 connections at once, needs fewer; close pages of kb web\n",
    )
    kept.pop().close()
    until = monotonic() + 20
    while client.ask("/icon.svg").status != HTTPStatus.OK:
        assert monotonic() < until
    assert client.sent(kept[0], "/icon.svg").status == HTTPStatus.OK
    kept[0].close()


def test_strangers_make_room_for_others(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 30)
    client.server.connections = Connections(4)
    strangers = [opened(client) for _ in range(4)]
    kept = [client.connection() for _ in range(3)]
    for stranger, admitted in zip(strangers[:3], kept, strict=True):
        assert client.sent(admitted, "/icon.svg").read()
        assert answer(stranger) == b""
    strangers[3].sendall(request(client, "/icon.svg"))
    assert strangers[3].recv(99).startswith(b"HTTP/1.1 200 OK\r\n")
    for each in (*strangers, *kept):
        each.close()


def test_a_client_that_takes_no_answer_ends(client: Client) -> None:
    before = set(threading.enumerate())
    with opened(client) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(request(client, "/main.js") * 400)
        until = monotonic() + 20
        while not set(threading.enumerate()) - before:
            assert monotonic() < until
        while set(threading.enumerate()) - before:
            assert monotonic() < until
            sleep(0.02)


def test_a_server_of_many_connections_counts_none_twice(client: Client) -> None:
    for _ in range(3 * connections.MOST_CONNECTIONS):
        with opened(client) as one:
            one.sendall(request(client, "/icon.svg", "Connection: close"))
            assert answer(one).startswith(b"HTTP/1.1 200 OK\r\n")
