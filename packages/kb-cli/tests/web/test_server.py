"""Who may ask the server of `kb web`, and for what."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from web_client import Client, served

from kb_cli.web.server import PageServer, page_files
from kb_messages import KbError

SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with served(tmp_path_factory.mktemp("runs")) as found:
        yield found


def test_the_printed_address_gives_a_cookie_once_and_leaves_the_address(client: Client) -> None:
    opening = client.server.gate.opening
    reply = client.ask(opening.partition(client.host)[2], cookie=None)
    assert (reply.status, reply.headers["Location"]) == (303, "/")
    assert reply.headers["Set-Cookie"].endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert reply.headers["Set-Cookie"].startswith(f"kb_{client.server.server_port}=")
    assert client.ask("/").text.startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("path", "given", "status", "text"),
    [
        ("/", {"cookie": None}, 401, "token: got none of this server, needs the address that kb web printed"),
        ("/", {"cookie": "kb_1=x; kb=y"}, 401, "token: got none"),
        ("/", {"cookie": 'kb_1="; bad=('}, 401, "token: got none"),
        ("/main.js", {"cookie": None}, 401, "token: got none"),
        ("/api/runs", {"cookie": None}, 401, "token: got none"),
        ("/?token=guess", {"cookie": None}, 401, "token: got none"),
        ("/?token=a&token=b", {"cookie": None}, 401, "token: got none"),
        ("/", {"Host": "example.com"}, 421, "Host: got 'example.com', needs 127.0.0.1:"),
        ("/", {"Host": "127.0.0.1:1"}, 421, "Host: got '127.0.0.1:1'"),
        ("/", {"Host": None}, 421, "Host: got 0 of them"),
        ("/", {"Host": ["127.0.0.1:1", "127.0.0.1:1"]}, 421, "Host: got 2 of them"),
        ("/", {"Origin": "http://example.com"}, 403, "Origin: got 'http://example.com', needs this page"),
        ("/", {"Origin": "null"}, 403, "Origin: got 'null'"),
        ("/", {"Content-Length": "3"}, 413, "body: got one, needs none"),
        ("/", {"Transfer-Encoding": "chunked"}, 413, "body: got one, needs none"),
        ("/../server.py", {}, 404, "address: got none of this page"),
        ("/%2e%2e/server.py", {}, 404, "address: got none of this page"),
        ("/index.html", {}, 404, "address: got none of this page"),
        ("/api/none", {}, 404, "/api/none: got a request of no view, needs one of runs, "),
        ("/api/overview", {}, 400, "run: got nothing, needs a value in the address"),
        ("/api/overview?run=../x", {}, 404, "run=../x: got a run that is not there, needs one of the runs in "),
        ("/api/overview?run=a&run=b", {}, 400, "run: got several values, needs one"),
        ("/api/overview?run=%ff", {}, 400, "address: got one that cannot be read"),
        ("http://[x/", {}, 400, "address: got one that cannot be read"),
        ("/api/runs?" + "&".join(f"a{n}=1" for n in range(99)), {}, 400, "address: got one that cannot be read"),
        ("/" + "x" * 70_000, {}, 414, "address: got more than 65536 bytes, needs at most so many"),
    ],
)
def test_a_wrong_request_gets_a_sentence(client: Client, path: str, given: dict, status: int, text: str) -> None:
    reply = client.ask(path, **given)
    assert reply.status == status
    assert reply.text.startswith(text)
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
    assert SECURITY.items() <= reply.headers.items()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_nothing_is_ever_written(client: Client, method: str) -> None:
    reply = client.ask("/api/runs", method)
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD")
    assert reply.text == f"method: got {method}, needs GET or HEAD\n"


def test_localhost_and_this_origin_are_let_in(client: Client) -> None:
    port = client.server.server_port
    assert client.ask("/", Host=f"LocalHost:{port}", Origin=f"http://localhost:{port}").status == 200


def test_head_gives_the_headers_alone(client: Client) -> None:
    whole, head = client.ask("/"), client.ask("/", "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert {**whole.headers, "Date": ""} == {**head.headers, "Date": ""}
    assert SECURITY.items() <= head.headers.items()
    assert client.ask("/api/live", "HEAD").headers["Content-Type"] == "text/event-stream"


def test_one_connection_takes_several_requests(client: Client) -> None:
    connection = client.connection()
    for path in ("/", "/api/runs", "/api/none", "/main.js"):
        client.sent(connection, path).read()
    connection.close()


def test_rubbish_is_answered_and_ends_the_connection(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.server.server_port), timeout=10) as rubbish:
        rubbish.sendall(b"\x16\x03\x01\x02\x00<script>\r\n\r\n")
        found = b"".join(iter(lambda: rubbish.recv(9999), b""))
    assert b"needs one as browsers send it" in found


def test_it_listens_on_the_loopback_interface_alone(client: Client) -> None:
    assert client.server.socket.getsockname()[0] == "127.0.0.1"


def test_twenty_clients_at_once_get_the_answer_of_one(client: Client) -> None:
    with ThreadPoolExecutor(20) as pool:
        pages = list(pool.map(lambda _: client.ask("/").body, range(20)))
        lists = list(pool.map(lambda _: client.ask("/api/runs").json, range(20)))
    assert set(pages) == {client.ask("/").body}
    assert all(each == lists[0] for each in lists)


def test_a_port_in_use_is_refused(client: Client) -> None:
    port = client.server.server_port
    with pytest.raises(KbError) as caught:
        PageServer(Path(), Path(), port)
    assert str(caught.value) == f"--port {port}: got a port in use, needs a free one; leave --port out"


def test_the_page_is_small_and_names_no_other_host() -> None:
    files = page_files()
    assert sum(len(file.body) for file in files.values()) < 200_000
    for path, file in files.items():
        text = file.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, path
        assert "innerHTML" not in text, path
        assert "style=" not in text, path


def test_the_server_starts_without_the_modules_that_read_runs() -> None:
    code = (
        "import sys, kb_cli.web.server; print(sorted({'numpy', 'msgspec', 'rich', 'yaml', 'simpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_modules_that_answer_requests_are_loaded_before_the_first_request() -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom kb_cli.web.server import PageServer\n"
        "with PageServer(Path('runs'), Path('sweeps'), 0) as server:\n"
        "    server.load_ahead()\n"
        "    for thread in __import__('threading').enumerate():\n"
        "        thread.name == 'kb-web-load' and thread.join()\n"
        "answers = {name.rpartition('.')[2] for name in sys.modules if name.startswith('kb_cli.web.')}\n"
        "from kb_cli.web import routes\n"
        "print({place.partition(':')[0] for place in routes._ANSWERS.values()} - answers)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_a_request_that_the_end_of_the_server_broke_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr("kb_cli.web.answers.runs.runs", broken)
    with served(tmp_path) as client:
        assert client.ask("/api/runs").status == 500
        assert "kb itself failed" in capsys.readouterr().err
        client.server.is_over = True
        reply = client.ask("/api/runs")
    assert (reply.status, reply.text.strip()) == (503, "kb web has ended")
    assert capsys.readouterr().err == ""
