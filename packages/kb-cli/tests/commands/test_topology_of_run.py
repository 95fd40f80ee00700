"""`kb topology show --run`: pictures of a finished run, and what is no such run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


@pytest.fixture
def run(invoke: Invoke, bench_file: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of a run on one_cube, by its relative path."""
    monkeypatch.chdir(tmp_path)
    done = invoke("run", str(bench_file()), "--topology", "one_cube", "--json")
    assert done.exit_code == 0, done.output
    return str(json.loads(done.stdout)["run_dir"])


def test_the_chip_of_a_run_is_drawn_with_its_use(invoke: Invoke, run: str) -> None:
    done = invoke("topology", "show", "--run", run, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["name"], found["view"], found["part"], found["run"]) == ("one_cube", "cube", "", run)
    picture = Path(found["picture"])
    assert picture.name == f"{Path(run).name}-cube.svg"
    texts = [each.text for each in ElementTree.parse(picture).getroot().iter() if each.text and each.text.strip()]
    assert texts[0] == "one_cube: cube in small"
    # 2 x 8 x 8 x 4 bytes are read and half as many written; PE 0 reads all of it from its own slice
    lines = {tuple(text.splitlines()[:3]) for text in texts if text.startswith("sip0.cube0.pe0.pe_dma - ")}
    (line,) = [each for each in lines if "xbar0" in each[0]]
    assert [part.rpartition(", ")[2] for part in line[1:]] == ["256 B", "512 B"]


def test_equal_runs_give_equal_pictures(invoke: Invoke, run: str) -> None:
    assert invoke("topology", "show", "one_cube", "--run", run, "-o", "a.svg").exit_code == 0
    assert invoke("topology", "show", "--run", f"{run}/", "--out", "b.svg").exit_code == 0
    assert Path("a.svg").read_bytes() == Path("b.svg").read_bytes()


def test_a_part_decides_the_view(invoke: Invoke, run: str) -> None:
    found = json.loads(invoke("topology", "show", "--run", run, "--part", "sip0.cube0.pe3", "--json").stdout)
    assert (found["view"], found["part"]) == ("pe", "sip0.cube0.pe3")
    assert found["picture"].endswith("-sip0.cube0.pe3.svg")


def test_one_part_of_a_chip_is_drawn_without_a_run(invoke: Invoke, run: str) -> None:
    assert invoke("topology", "show", "one_sip", "--part", "sip0.cube3", "-o", "x.svg").exit_code == 0
    assert "one_sip: sip0.cube3" in Path("x.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "TOPOLOGY: got neither a topology nor --run, needs one of the two; name one, like one_sip"),
        (
            ("one_pe", "--run", "RUN"),
            "got one_pe, another chip than that of RUN, one_cube, needs the chip of the run; leave TOPOLOGY out",
        ),
        (("--run", "nowhere"), "nowhere: got no such folder, needs the folder of a run; kb run prints its name"),
        (("--run", "."), ".: got a folder without run.json, needs the folder of a run; kb run prints its name"),
        (("--run", "RUN", "--out", "RUN/usage.json"), "an input of this command"),
        (("--run", "RUN", "--part", "sip0.cube1"), "got 'sip0.cube1', needs the id of a cube, like sip0.cube0"),
        (("--run", "RUN", "--part", "a.b.c.d"), "got 'a.b.c.d', needs the id of a PE, like sip0.cube0.pe0"),
    ],
)
def test_chips_that_cannot_be_drawn_are_refused(
    invoke: Invoke, run: str, arguments: tuple[str, ...], words: str
) -> None:
    done = invoke("topology", "show", *(each.replace("RUN", run) for each in arguments))
    assert (done.exit_code, done.stdout) == (2, "")
    assert words.replace("RUN", run) in " ".join(done.stderr.split())


def damaged(run: str, name: str) -> None:
    path = Path(run) / name
    path.write_bytes(path.read_bytes().replace(b"0", b"1", 1))


@pytest.mark.parametrize("name", ["usage.json", "topology.yaml"])
def test_a_damaged_run_is_refused(invoke: Invoke, run: str, name: str) -> None:
    damaged(run, name)
    done = invoke("topology", "show", "--run", run)
    assert done.exit_code == 2
    assert f"{run}/{name}: got other bytes than the run wrote, needs the bytes that run.json lists" in done.stderr


def test_a_run_of_an_older_kb_has_no_usage(invoke: Invoke, run: str) -> None:
    path = Path(run) / "run.json"
    fields = json.loads(path.read_text())
    del fields["files"]["usage.json"]
    path.write_text(json.dumps(fields))
    done = invoke("topology", "show", "--run", run)
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: {run}: got a run without usage.json, needs how busy links and blocks were; "
        "run the benchmark again: kb wrote no such file before\n"
    )


def test_the_runs_of_a_shapes_file_are_drawn_one_by_one(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.csv").write_text("Layer,M,N,K\nx,16,16,16\ny,16,32,16\n")
    done = invoke("run", "gemm", "--shapes", "s.csv", "--json")
    assert done.exit_code == 0, done.output
    folder = Path(json.loads(done.stdout)[0]["run_dir"]).parent
    refused = invoke("topology", "show", "--run", str(folder))
    assert refused.exit_code == 2
    assert "got the runs of a shapes file (0000, 0001), needs the folder of one run; name one of" in refused.stderr
    assert invoke("topology", "show", "--run", str(folder / "0001"), "-o", "x.svg").exit_code == 0
