"""The list of runs: complete, rows of a shapes run, interrupted, running, and ones whose process died."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep

import pytest
from click.testing import Result
from web_client import Client, served

from kb_cli.run.base.folder_owner import owner
from kb_messages import KbError

Invoke = Callable[..., Result]
SMALL = ["-p", "M=24", "-p", "N=16", "-p", "K=8"]
PROGRESS = {
    "format": "kernbench-progress", "version": 1, "state": "running", "pid": 1, "row": None, "rows": None,
    "phase": "pass 1 (time)", "what": "", "elapsed_s": 2.5, "advanced_s": 2.5, "done": 3, "total": 12, "left_s": 7.5,
    "t_ps": 5000, "pes_done": 0, "pes": 8,
}  # fmt: skip


def gone() -> str:
    """As `owner`, for a process that is no more."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    _, _, machine = owner().split("-")
    return f"{pid}-1-{machine}"


def unfinished(out: Path, made_by: str, name: str = "gemm-0123456789ab", **progress: object) -> Path:
    folder = out / f".{name}.{made_by}-00000000-new"
    folder.mkdir(parents=True)
    (folder / "progress.json").write_text(json.dumps({**PROGRESS, **progress}))
    return folder


def listed(client: Client) -> list[dict]:
    return client.ask("/api/runs").json["runs"]


def test_an_empty_folder_has_no_runs(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        assert client.ask("/api/runs").json == {"folder": str(tmp_path), "runs": []}


def test_runs_of_one_benchmark_list_the_parameters_that_differ(invoke: Invoke, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    for k in (8, 24):
        assert (
            invoke(
                "run", "gemm", *SMALL[:-1], f"K={k}", "--topology", "one_pe", "--levers", "none", "--out", out
            ).exit_code
            == 0
        )
    with served(out) as client:
        assert sorted(run["differing"] for run in listed(client)) == ["K=24", "K=8"]


def test_runs_of_every_state_are_listed(invoke: Invoke, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    Path("shapes.csv").write_text("M,N,K\n8,8,8\n16,8,8\n")
    for options in ([], ["--shapes", "shapes.csv"]):
        assert (
            invoke(
                "run", "gemm", *(options or SMALL), "--topology", "one_pe", "--levers", "none", "--out", out
            ).exit_code
            == 0
        )
    running = unfinished(out, owner())
    unfinished(out, gone(), "gemm-feedfeedfeed")
    shutil.copytree(running, out / "gemm-00ff00ff00ff-interrupted")
    progress = {**PROGRESS, "state": "interrupted", "kernel_positions": ["pe0: at gemm.py:29"]}
    (out / "gemm-00ff00ff00ff-interrupted" / "progress.json").write_text(json.dumps(progress))
    (out / "strange").mkdir()
    (out / "link").symlink_to(out)
    with served(out) as client:
        runs = listed(client)
        assert runs[0]["state"] == "running"
        by_state = {run["state"]: run for run in runs}
        assert sorted(run["state"] for run in runs) == ["complete", "complete", "died", "interrupted", "running"]
        assert by_state["running"]["progress"]["t_ps"] == 5000
        assert by_state["running"]["updated_at"] == (running / "progress.json").stat().st_mtime
        assert by_state["interrupted"]["progress"]["kernel_positions"] == ["pe0: at gemm.py:29"]
        assert by_state["interrupted"]["name"] == "gemm-00ff00ff00ff"
        assert by_state["died"]["benchmark"] == "gemm"
        (of_rows,) = (run for run in runs if len(run["rows"]) == 2)
        assert [row["shape"] for row in of_rows["rows"]] == [{"M": 8, "N": 8, "K": 8}, {"M": 16, "N": 8, "K": 8}]
        row = client.ask(f"/api/overview?run={of_rows['rows'][1]['id']}").json
        assert row["name"] == f"{of_rows['name']}/0001"
        assert row["report"]["latency_ps"] == of_rows["rows"][1]["latency_ps"]
        whole = client.ask(f"/api/overview?run={of_rows['id']}")
        assert (whole.status, "the folder of several runs" in whole.text) == (400, True)
        ids = [run["id"] for run in runs] + [row["id"] for row in of_rows["rows"]]
        assert len(set(ids)) == 7


def test_the_overview_has_the_figures_of_kb_report(invoke: Invoke, tmp_path: Path) -> None:
    invoke("run", "gemm", *SMALL, "--out", tmp_path / "runs")
    (folder,) = (tmp_path / "runs").iterdir()
    printed = json.loads(invoke("report", folder, "--levers", 99, "--json").stdout)
    measured = printed["levers"]
    assert measured
    never = {"run_dir": ""}
    with served(folder) as client:  # the folder of one run is a list of one
        (run,) = listed(client)
        found = client.ask(f"/api/overview?run={run['id']}").json
        log = client.ask(f"/api/of_log?run={run['id']}").json
        levers = client.ask(f"/api/levers?run={run['id']}").json["levers"]
    assert found["report"]["run_dir"] == str(folder)
    assert {**found["report"], **log, **never, "roofline": None} == {**printed, **never, "roofline": None}
    assert {(each["name"], each["bound_ps"]) for each in levers} == {
        (each["name"], each["bound_ps"]) for each in measured
    }
    assert all(each["latency_ps"] is not None for each in levers), "as the folder has them"
    assert [each["path_ps"] for each in levers] == sorted((each["path_ps"] for each in levers), reverse=True)


def test_a_run_that_was_written_again_is_read_again(invoke: Invoke, tmp_path: Path) -> None:
    invoke("run", "gemm", *SMALL, "--out", tmp_path)
    with served(tmp_path) as client:
        (run,) = listed(client)
        (folder,) = tmp_path.glob("gemm-*")
        client.ask(f"/api/overview?run={run['id']}").json  # noqa: B018
        text = (folder / "run.json").read_text()
        (folder / "run.json").write_text(text.replace('"seed": 0', '"seed": 1'))
        damaged = client.ask(f"/api/overview?run={run['id']}")
        assert (damaged.status, "got other content than the run wrote" in damaged.text) == (400, True)
        (folder / "run.json").write_text(text)
        assert client.ask(f"/api/overview?run={run['id']}").status == 200


def test_news_come_when_a_run_goes_on(tmp_path: Path) -> None:
    def event() -> dict:
        while not (line := stream.readline()).startswith(b"data: "):
            assert line, "the stream goes on"
        return json.loads(line.removeprefix(b"data: "))

    with served(tmp_path) as client:
        with closing(client.connection()) as connection, closing(client.sent(connection, "/api/live")) as stream:
            assert event()["runs"] == []
            folder = unfinished(tmp_path, owner())
            first = event()["runs"][0]
            (folder / "progress.json").write_text(json.dumps({**PROGRESS, "t_ps": 6000, "done": 4}))
            while (now := event()["runs"][0])["progress"]["t_ps"] == 5000:
                pass
        assert (first["id"], first["progress"]["done"]) == (now["id"], 3)
        assert now["progress"]["done"] == 4


def test_nobody_looks_for_news_for_a_page_that_was_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kb_cli.web.answers.runs._SIGN_OF_LIFE_S", 0.0)
    monkeypatch.setattr("kb_cli.web.answers.runs._LOOK_S", 0.05)
    with served(tmp_path) as client:
        before = set(threading.enumerate())
        stream = client.sent(client.connection(), "/api/live")
        assert stream.readline().startswith(b"data: ")
        (thread,) = set(threading.enumerate()) - before
        stream.close()
        last = monotonic() + 6
        while thread.is_alive():
            assert monotonic() < last
            sleep(0.05)


def test_a_folder_whose_name_is_no_text_is_listed(invoke: Invoke, tmp_path: Path) -> None:
    invoke("run", "gemm", *SMALL, "--topology", "one_pe", "--out", tmp_path)
    (folder,) = tmp_path.iterdir()
    odd = os.fsencode(tmp_path) + b"/gemm-\xff"
    try:
        shutil.copytree(os.fsencode(folder), odd)
    except OSError:
        pytest.skip("this file system takes names of text alone")
    with served(tmp_path) as client:
        runs = {run["name"]: run["id"] for run in listed(client)}
        assert sorted(runs) == sorted([folder.name, "gemm-\\udcff"])
        assert client.ask(f"/api/lanes?table=ops&run={runs['gemm-' + chr(92) + 'udcff']}").status == 200
        overview = client.ask(f"/api/overview?run={runs['gemm-' + chr(92) + 'udcff']}").json
        assert overview["folder"].endswith("gemm-\\udcff")
        with closing(client.connection()) as connection, closing(client.sent(connection, "/api/live")) as stream:
            assert b"gemm-" in stream.readline()


@pytest.mark.parametrize("progress", [b"", b"{", b"[]", b'{"pid": "x"}', b'{"what": "\xff"}', b"[" * 100_000])
def test_a_progress_that_cannot_be_read_is_none(tmp_path: Path, progress: bytes) -> None:
    folder = unfinished(tmp_path, owner())
    (folder / "progress.json").write_bytes(progress)
    with served(tmp_path) as client:
        (run,) = listed(client)
        found = client.ask(f"/api/lanes?run={run['id']}&table=ops")
    assert (run["state"], run["progress"]) == ("running", None)
    sentence = "got a run that has not written a log, needs one; look again when it has simulated some time"
    assert (found.status, found.text) == (400, f"gemm-0123456789ab: {sentence}\n")


@pytest.mark.parametrize(
    ("args", "place", "needs"),
    [
        (["nothing"], "nothing", "run folders; kb run makes kb-runs"),
        (["--sweeps", "nothing"], "nothing", "sweeps; kb sweep makes kb-sweeps"),
        (["kb-runs", "--sweeps", "nothing"], "nothing", "sweeps; kb sweep makes kb-sweeps"),
    ],
)
def test_a_folder_that_is_not_there_is_refused(
    invoke: Invoke, tmp_path: Path, args: list[str], place: str, needs: str
) -> None:
    for folder in ("kb-runs", "kb-sweeps"):
        (tmp_path / folder).mkdir()
    done = invoke("web", *args, "--no-open")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"error: {place}: got no such folder, needs a folder of {needs}\n"


def test_a_default_folder_may_be_missing_where_the_other_is_there(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_page(folder: Path, sweeps: Path, port: int) -> None:
        raise KbError("page", "opened", "no page in this test")

    monkeypatch.setattr("kb_cli.commands.web.open_page", open_page)
    assert (
        invoke("web").stderr
        == "error: kb-runs: got no such folder, needs a folder of run folders; kb run makes kb-runs\n"
    )
    (tmp_path / "kb-sweeps").mkdir()
    assert invoke("web").stderr == "error: page: got opened, needs no page in this test\n"
    (tmp_path / "kb-sweeps").rename(tmp_path / "kb-runs")
    assert invoke("web").stderr == "error: page: got opened, needs no page in this test\n"
