"""The server behind the page: on the loopback interface alone, for GET and HEAD alone."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from socketserver import TCPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from kb_cli.web.answer import WebAnswer, WebEvents, sentence
from kb_cli.web.connections import (
    ANSWER_S,
    MOST_HEAD_NBYTES,
    MOST_LINE_NBYTES,
    REFUSAL_S,
    REQUEST_S,
    Connections,
    LargeRequestError,
    LateRequestError,
    Requests,
    drop_rest,
    refuse,
)
from kb_cli.web.request_checks import SECURITY, TOKEN, PageGate

if TYPE_CHECKING:
    from kb_cli.web.opened_runs import OpenedRuns
    from kb_cli.web.run_index import RunIndex
    from kb_cli.web.sweep_index import SweepIndex


_KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_files() -> dict[str, WebAnswer]:
    """Returns every file of the page by its path in the address. `/` is the page itself.

    The files are read once, so that a request names none on the disk.
    """
    from kb_cli.report.elements.stage_colours import colours_css  # brings modules that an import of this one must not

    found = {}
    for file in files("kb_cli.web").joinpath("page").iterdir():
        ending = f".{file.name.rpartition('.')[2]}"
        if ending in _KINDS:
            found[f"/{file.name}"] = WebAnswer(file.read_bytes(), _KINDS[ending])
    found["/colours.css"] = WebAnswer(colours_css().encode(), _KINDS[".css"])
    plot = files("kb_cli.report.elements").joinpath("plot.css")
    found["/plot.css"] = WebAnswer(plot.read_bytes(), _KINDS[".css"])
    found["/"] = found.pop("/index.html")
    return found


API: Final = "/api/"
_MOST_FIELDS: Final = 32
"""The most fields of a query. No view asks with as many."""


class PageServer(ThreadingHTTPServer):
    """Shows the runs below *folder*, and the sweeps below *sweeps*, to a browser that knows the secret.

    `gate.opening` is the address that a user opens. A folder that is not there has no runs or sweeps yet. Raises
    KbError for a *port* that is in use, or that this user may not open; 0 is any free one.
    """

    daemon_threads = True
    request_queue_size = 128
    is_over = False
    """Whether the server has ended. Requests that it had begun to answer may go on for a moment."""
    allow_reuse_address = os.name != "nt"  # there it would let a second server take the port

    def __init__(self, folder: Path, sweeps: Path, port: int) -> None:
        try:
            super().__init__(("127.0.0.1", port), _PageHandler)
        except OSError as error:
            raise _port_error(port, error) from None
        self.gate = PageGate(self.server_address[1])
        self.connections = Connections()
        self.files = page_files()
        self._folder, self._sweeps, self._lock = folder, sweeps, Lock()
        self._indexes: tuple[RunIndex, OpenedRuns, SweepIndex] | None = None

    @property
    def indexes(self) -> tuple[RunIndex, OpenedRuns, SweepIndex]:
        """The runs, the ones of them that are in use, and the sweeps. Their modules are loaded with the first
        request.
        """
        with self._lock:
            if self._indexes is None:
                from kb_cli.web.opened_runs import OpenedRuns
                from kb_cli.web.run_index import RunIndex
                from kb_cli.web.sweep_index import SweepIndex

                self._indexes = RunIndex(self._folder), OpenedRuns(), SweepIndex(self._sweeps)
            return self._indexes

    def load_ahead(self) -> None:
        """Loads the modules of answers on a thread while the browser starts. A request that comes first waits for
        it.
        """

        def load() -> None:
            from kb_cli.web.routes import load_answers

            load_answers()

        Thread(target=load, name="kb-web-load", daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers the requests of a new connection on a thread. Refuses the connection where there are too many."""
        if self.connections.add(request):
            super().process_request(request, client_address)
        else:
            refuse(request)
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Ends a connection."""
        self.connections.remove(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Closes the server, and notes that it is over."""
        self.is_over = True
        super().server_close()

    def server_bind(self) -> None:
        """Binds the socket. The base class would also ask the network for the name of this machine."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a client that went away. Any other exception of a connection is kb's own failure."""
        error = sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1]
        if isinstance(error, OSError):
            return
        super().handle_error(request, client_address)


class _PageHandler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        """Prepares the connection. A request has to come in time."""
        super().setup()
        self._requests = Requests(self.connection)
        self.rfile = self._requests.file

    def handle_one_request(self) -> None:
        """Reads a request and answers it; refuses a request that comes too slowly or is too large."""
        self.close_connection = True
        self.command, self.requestline, self.request_version = "", "", self.protocol_version
        try:
            self._requests.begin()
            self.raw_requestline = self.rfile.readline(MOST_LINE_NBYTES + 1)
            if len(self.raw_requestline) > MOST_LINE_NBYTES:
                self._refuse("address", f"more than {MOST_LINE_NBYTES} bytes", "at most so many", 414)
            elif self.raw_requestline and self.parse_request():
                self.connection.settimeout(ANSWER_S)
                self.do_GET()
        except LateRequestError as error:
            if error.is_begun:  # a connection that a browser opened ahead just ends
                self._refuse("request", f"a part within {REQUEST_S:g} s", "the whole", HTTPStatus.REQUEST_TIMEOUT)
        except LargeRequestError:
            got = f"more than {MOST_HEAD_NBYTES} bytes"
            self._refuse("headers", got, "at most so many", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _refuse(self, where: str, got: str, needs: str, status: int) -> None:
        """Answers that a request cannot be taken, and ends the connection. The request may go on meanwhile."""
        self._end_with(sentence(f"{where}: got {got}, needs {needs}", status))

    def _end_with(self, refusal: WebAnswer) -> None:
        self.close_connection = True
        self.connection.settimeout(REFUSAL_S)
        self._send(refusal)
        drop_rest(self.connection)

    def handle_expect_100(self) -> bool:
        """Sends nothing: a request with a body is refused."""
        return True

    def parse_request(self) -> bool:
        """Parses the request, and refuses requests of strangers."""
        if not super().parse_request():
            return False
        refusal = self.server.gate.refuses(self.command, self.headers)
        if refusal is not None:
            self._end_with(refusal)
            return False
        return True

    def do_GET(self) -> None:
        """Answers the request."""
        found = self._answer()
        if isinstance(found, WebEvents):
            self._stream(found)
        else:
            self._send(found)

    do_HEAD = do_GET

    def _answer(self) -> WebAnswer | WebEvents:
        gate = self.server.gate
        try:
            asked = urlsplit(self.path)
            fields = parse_qs(asked.query, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
        except ValueError as error:
            return sentence(f"address: got one that cannot be read ({error}), needs one of this page", 400)
        opened = gate.lets_in(asked.path, fields.get(TOKEN, []))
        if opened is None and not gate.knows(self.headers):
            opened = gate.unknown()
        if opened is not None:
            self.close_connection = True
            return opened
        self.server.connections.admit(self.connection)
        if asked.path in self.server.files:
            return self.server.files[asked.path]
        if not asked.path.startswith(API):
            return sentence("address: got none of this page, needs /", HTTPStatus.NOT_FOUND)
        return self._from_api(asked.path.removeprefix(API), fields)

    def _from_api(self, name: str, fields: dict[str, list[str]]) -> WebAnswer | WebEvents:
        twice = next((field for field, values in fields.items() if len(values) > 1), None)
        if twice is not None:
            return sentence(f"{twice[:40]}: got several values, needs one", HTTPStatus.BAD_REQUEST)
        single = {field: values[0] for field, values in fields.items()}
        from kb_cli.web.routes import answer_to  # with the first request for a run, so that the server starts at once
        from kb_cli.web.web_request import WebRequest

        return answer_to(name, WebRequest(single, *self.server.indexes), lambda: self.server.is_over)

    def _send(self, answer: WebAnswer) -> None:
        self.send_response(answer.status)
        for name, value in answer.head.items():
            self.send_header(name, value)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _stream(self, events: WebEvents) -> None:
        self.close_connection = True
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "HEAD":
            return
        with suppress(OSError):  # the page was closed
            for text in events.texts:
                self.wfile.write(b": \n\n" if text is None else b"data: " + text + b"\n\n")
                self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Sends an error as text, with the headers of every answer. No part of the request is repeated."""
        self.command = self.command or ""
        if code == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self._refuse("headers", "too many or too long ones", "those of a browser", code)
        else:
            self._refuse("request", "one that cannot be read", "one as browsers send it", code)

    def end_headers(self) -> None:
        """Ends the headers, after the headers of every answer."""
        for name, value in SECURITY.items():
            self.send_header(name, value)
        super().end_headers()

    def version_string(self) -> str:
        """Returns `kb`, without a version."""
        return "kb"

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


def _port_error(port: int, error: OSError) -> Exception:
    from kb_messages import KbError  # for an error alone

    if error.errno in (errno.EACCES, errno.EPERM):
        return KbError(f"--port {port}", "a port that this user may not open", "one from 1024 on", "leave --port out")
    if error.errno == errno.EADDRINUSE:
        return KbError(f"--port {port}", "a port in use", "a free one", "leave --port out")
    return KbError(f"--port {port}", f"an error of the system ({error.strerror or error})", "a port of this machine")
