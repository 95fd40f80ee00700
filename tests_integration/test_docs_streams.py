"""The program of docs/streams.md runs, and takes what the page says; its mistake is told as quoted."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from python_copies import python

from kb_cli.main import kb

PAGE = (Path(__file__).parents[1] / "docs" / "streams.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL))
QUOTED = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
STUCK = """from pathlib import Path

import numpy as np

from kb_cli.benchmark import bundled
from kb_engine import Engine, Host
from kb_topology import load_topology


def kernel(tl, x):
    tl.load(x)


host = Host(Engine(load_topology(bundled.find("topologies", "one_sip"))), Path(__file__).parent)
x, never = host.empty("x", (64, 64), "f16", cube=0), host.event()
s, t = host.stream(), host.stream()
host.write(x, np.zeros((64, 64), np.float16), stream=s)
t.wait(never)
host.launch(kernel, x, stream=t)
host.synchronize()
"""


@pytest.mark.parametrize(("streams", "quoted"), [(2, 0), (1, 1)])
def test_uploads_take_what_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streams: int, quoted: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layers.py").write_text(PROGRAMS["layers.py"], encoding="utf-8")
    arguments = ["run", "layers.py", "--topology", "one_sip", "--levers", "none", "-p", f"streams={streams}"]
    done = CliRunner().invoke(kb, arguments)
    assert done.exit_code == 0, done.output
    assert QUOTED[quoted] in done.stdout
    assert "verified      y: ok" in done.stdout


def test_an_event_that_nobody_records_is_told_as_quoted(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(STUCK, encoding="utf-8")
    done = python(tmp_path, "stuck.py")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(QUOTED[2].rstrip())
