"""`kb sweep` on a Dask cluster of two workers, of which one is killed on the way, and as Parquet."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from distributed import LocalCluster

KB = Path(sys.executable).with_name("kb")
POINTS, BEFORE = 1000, 200
"""Points of the sweep, and how many of them are known when a worker is killed."""
PE = "$.cube.pe_template.nodes"
CHIP = [
    "$.cube.nodes.hbm.bw_gbs=51.2,102.4", "$.cube.nodes.hbm.latency_ns=45,90", "$.cube.nodes.xbar.overhead_ns=2,4",
    f"{PE}.pe_gemm.clock_ghz=1,2", f"{PE}.pe_dma.setup_ns=5,10", f"{PE}.pe_tcm.bw_gbs=256,512",
    f"{PE}.pe_cpu.issue_ns=4,8", f"{PE}.pe_scheduler.command_ns=8,16",
]  # fmt: skip
GEMM = ["M=64,128,200", "N=128,200", "tile=32x32x32,64x64x64,64x32x64"]
AXES = [option for text in CHIP for option in ("--set", text)] + [option for text in GEMM for option in ("-p", text)]
SWEEP = ["gemm", "-p", "K=256", *AXES, "--random", str(POINTS), "--json"]


def answer(folder: Path, *options: str) -> Any:
    ran = subprocess.run([KB, "sweep", *SWEEP, *options], cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


@pytest.mark.timeout(600)  # two sweeps of a thousand points
def test_a_worker_that_is_killed_loses_no_point(tmp_path: Path) -> None:
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        options = ["--scheduler", cluster.scheduler_address, "--out", "dask"]
        running = subprocess.Popen([KB, "sweep", *SWEEP, *options], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        while len(list(tmp_path.glob("dask/points/*/*.json"))) < BEFORE:
            assert running.poll() is None, "the sweep has time for more points"
            time.sleep(0.05)
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
        stdout, _ = running.communicate()
    found = json.loads(stdout)
    assert (found["computed"], found["failed"], len(found["points"])) == (POINTS, 0, POINTS)
    assert len(list(tmp_path.glob("dask/points/*/*.json"))) == POINTS
    local = answer(tmp_path, "--out", "local")
    assert local["points"] == found["points"]
    again = answer(tmp_path, "--out", "dask", "-o", "points.parquet")
    assert (again["computed"], again["known"]) == (0, POINTS)
    rows = duckdb.sql(f"SELECT M, tile, latency_ps FROM '{tmp_path / 'points.parquet'}'").fetchall()
    assert [row[2] for row in rows] == [point["result"]["latency_ps"] for point in found["points"]]


def test_a_scheduler_that_goes_away_is_a_sentence_and_its_points_are_known(tmp_path: Path) -> None:
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        command = [KB, "sweep", *SWEEP, "--scheduler", cluster.scheduler_address]
        running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(list(tmp_path.glob("kb-sweeps/points/*/*.json"))) < 20:
            assert running.poll() is None, "the sweep has time for more points"
            time.sleep(0.05)
    _, said = running.communicate()
    assert running.returncode == 2, said
    assert "got a connection that was lost, needs a scheduler that stays until the end" in said
    assert "kb itself failed" not in said


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "127.0.0.1:{closed}",
            "got no answer (Timed out trying to connect to tcp://127.0.0.1:{closed} ",
        ),
        ("tcp://127.0.0.1", "got no answer (missing port number in address '127.0.0.1'), needs"),
        ("127.0.0.1:{strange}", "got an answer of another program, needs"),
    ],
)
def test_an_address_without_a_scheduler_is_a_sentence_within_seconds(tmp_path: Path, address: str, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as strange, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = {"closed": closed.getsockname()[1], "strange": strange.getsockname()[1]}
        command = [KB, "sweep", "gemm", "--scheduler", address.format(**ports), "--scheduler-wait", "1"]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"error: --scheduler {address.format(**ports)}: {said.format(**ports)}")
    assert ran.stderr.count("\n") == 1, "one sentence, and no traceback"


def test_workers_with_threads_are_refused(tmp_path: Path) -> None:
    with LocalCluster(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=":0") as cluster:
        command = [KB, "sweep", *SWEEP, "--scheduler", cluster.scheduler_address]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "got 2 threads" in ran.stderr
