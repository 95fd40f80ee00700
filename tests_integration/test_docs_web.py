"""The commands of docs/web.md run, and `kb web` serves the page of the run until it is interrupted."""

import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]
KB = str(Path(sys.executable).with_name("kb"))
TEXT = (ROOT / "docs" / "web.md").read_text(encoding="utf-8")


def test_the_page_of_the_first_run_is_served(tmp_path: Path) -> None:
    run, web = TEXT.split("```bash\n")[1].split("```")[0].splitlines()
    subprocess.run([KB, *run.split()[1:]], cwd=tmp_path, capture_output=True, timeout=100, check=True)
    (folder,) = (tmp_path / "kb-runs").iterdir()
    command = [KB, *web.split()[1:], "--no-open"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        line = server.stdout.readline()
        try:
            assert line.startswith("kb-runs: http://127.0.0.1:")
            assert line.endswith(" until you press Ctrl+C\n")
            address = urlsplit(line.split()[1])
            asked = HTTPConnection(address.netloc, timeout=20)
            asked.request("GET", f"/?{address.query}")
            opened = asked.getresponse()
            opened.read()
            cookie = {"Cookie": opened.headers["Set-Cookie"].partition(";")[0]}
            found = {}
            for path in ("/", "/main.js", "/style.css", "/api/runs"):
                asked.request("GET", path, headers=cookie)
                answer = asked.getresponse()
                found[path] = answer.status, answer.read()
            asked.close()
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(20) == 130
        assert server.stderr.read() == ""
    assert (opened.status, {status for status, _ in found.values()}) == (303, {200})
    assert folder.name.encode() in found["/api/runs"][1]
