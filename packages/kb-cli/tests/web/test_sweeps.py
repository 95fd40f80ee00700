"""The sweeps of the page: a list, pictures and rows as the report has them, and files that are no sweeps."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from web_client import Client, served

from kb_cli.main import kb
from kb_cli.sweep.sweep_file import read_sweep
from kb_cli.web import sweep_index
from kb_cli.web.run_index import address_id
from kb_messages import BenchmarkError

BW = "$.cube.nodes.hbm.bw_gbs"


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A sweep of four points of which two fail, and its file. It lies below the folder of runs."""
    out = tmp_path_factory.mktemp("runs")
    args = ["gemm", "-p", "M=1024", "-p", "N=1024", "-p", "K=1024", "-p", "tile=256x256x64,1024x1024x1024", "--set"]
    done = CliRunner().invoke(kb, ["sweep", *args, f"{BW}=51.2,102.4", "--jobs", "1", "--out", str(out / "sweeps")])
    assert done.exit_code == 0, done.output
    (stored,) = out.glob("sweeps/*/sweep.json")
    return out, json.loads(stored.read_text())


@pytest.fixture
def client(swept: tuple[Path, dict[str, Any]]) -> Iterator[Client]:
    with served(swept[0]) as found:
        yield found


def test_a_sweep_has_the_rows_and_pictures_of_its_report(client: Client, swept: tuple[Path, dict[str, Any]]) -> None:
    out, table = swept
    (listed,) = client.ask("/api/sweeps").json["sweeps"]
    assert (listed["benchmark"], listed["topology"], listed["points"]) == ("gemm", "one_cube", 4)
    assert listed["failed"] == table["failed"] == 2
    assert listed["wrong"] is None
    found = client.ask(f"/api/sweep?sweep={listed['id']}").json
    assert found["axes"] == ["bw_gbs", "tile"]
    assert [row[:2] for row in found["ranked"]["rows"]] == [["102.4", "256x256x64"], ["51.2", "256x256x64"]]
    assert (found["ranked"]["of"], found["failed"]["of"], len(found["front"]["rows"])) == (2, 2, 2)
    assert all("needs at most the 512 KiB of input_kib" in row[-1] for row in found["failed"]["rows"])
    report = next((out / "sweeps").glob("gemm-*/report.html")).read_text()
    assert found["pictures"]
    for picture in found["pictures"]:
        assert picture["svg"] in report
        assert picture["sentence"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no sweep ("),
        (b"{}", "no sweep ("),
        (b'{"axes": 3}', "no sweep ("),
        (b"\xff\xfe", "no sweep ("),
        (b'{"other": %s}' % (b"[" * 100_000 + b"]" * 100_000), "no sweep ("),
    ],
    ids=["nothing", "empty", "another type", "no text", "too deep"],
)
def test_a_damaged_sweep_is_a_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    folder = tmp_path / "sweeps" / "<img src=x>"
    folder.mkdir(parents=True)
    (folder / "sweep.json").write_bytes(content)
    with served(tmp_path) as client:
        (listed,) = client.ask("/api/sweeps").json["sweeps"]
        assert said in listed["wrong"]
        reply = client.ask(f"/api/sweep?sweep={address_id(folder.name)}")
        assert (reply.status, said in reply.text) == (400, True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"front": [7]}, "a Pareto front of configurations that are not there"),
        ({"axes": {"tile": [], "bw_gbs": ["1"]}}, "an axis without values"),
        ({"axes": {"tile": ["1"], "bw_gbs": ["1"], "other": ["2"]}}, "a point of other axes"),
        ({"over": ["tile", "bw_gbs"]}, "a configuration of other axes or costs"),
        ({"best": ["tile"]}, "a configuration of other axes or costs"),
        ({"costs": []}, "a configuration of other axes or costs"),
    ],
)
def test_a_sweep_that_contradicts_itself_is_a_sentence(
    swept: tuple[Path, dict[str, Any]], tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    folder = tmp_path / "sweeps" / "changed"
    folder.mkdir(parents=True)
    (folder / "sweep.json").write_text(json.dumps(swept[1] | change))
    with served(tmp_path) as client:
        assert said in client.ask("/api/sweeps").json["sweeps"][0]["wrong"]


def test_a_sweep_that_is_not_there_is_404(client: Client) -> None:
    reply = client.ask("/api/sweep?sweep=../x")
    assert (reply.status, reply.text[:35]) == (404, "sweep=../x: got a sweep that is not"[:35])
    assert client.ask("/api/sweep").status == 400


def test_a_sweep_that_grew_is_read_again(
    tmp_path: Path, invoke: Callable[..., Any], bench_file: Callable[..., Path]
) -> None:
    bench, out = bench_file(), tmp_path / "sweeps"
    for values, points in (("size=8", 1), ("size=8,16", 2)):
        assert invoke("sweep", bench, "-p", values, "--jobs", 1, "--out", out).exit_code == 0
        with served(tmp_path) as client:
            assert sum(each["points"] for each in client.ask("/api/sweeps").json["sweeps"]) == points * (points + 1) / 2


@pytest.mark.parametrize(("most_nbytes", "reads"), [(1 << 20, 2), (1, 4)])
def test_whole_sweeps_are_kept_while_their_files_are_small(
    swept: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_nbytes: int, reads: int
) -> None:
    read: list[Path] = []
    monkeypatch.setattr(sweep_index, "_MOST_NBYTES", most_nbytes)
    monkeypatch.setattr(sweep_index, "read_sweep", lambda folder: read.append(folder) or read_sweep(folder))
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sweep.json").write_text(json.dumps(swept[1]))
    index = sweep_index.SweepIndex(tmp_path)
    for each in sorted(index.sweeps(), key=lambda each: each.name):
        assert index.sweep(each.id).points
    assert len(read) == reads


@pytest.mark.parametrize(
    ("old", "new"), [(b"gemm", b"g\xffmm"), (b"gemm", rb"g\ud800mm"), (b'"points": [', b'"points": ' + b"[" * 100_000)]
)
def test_a_sweep_of_bytes_that_are_no_json_is_one_sentence(
    swept: tuple[Path, dict[str, Any]], tmp_path: Path, old: bytes, new: bytes
) -> None:
    (stored,) = swept[0].glob("sweeps/*/sweep.json")
    damaged = stored.read_bytes().replace(old, new, 1)
    assert damaged != stored.read_bytes()
    (tmp_path / "sweep.json").write_bytes(damaged)
    with pytest.raises(BenchmarkError, match=r"sweep\.json: got no sweep \(.*\), needs a file that kb sweep wrote$"):
        read_sweep(tmp_path)
