"""`kb sweep` on a Dask cluster of two workers, of which one is killed on the way, and as Parquet."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
from distributed import LocalCluster

KB = Path(sys.executable).with_name("kb")
SWEEP = [
    "gemm", "-p", "M=32:256:32", "-p", "N=128", "-p", "K=256", "-p", "tile=32x32x32,64x64x64,64x32x64",
    "--set", "$.cube.nodes.hbm.bw_gbs=51.2,102.4,204.8", "--json",
]  # fmt: skip


def answer(folder: Path, *options: str) -> Any:
    ran = subprocess.run([KB, "sweep", *SWEEP, *options], cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


def test_a_worker_that_is_killed_loses_no_point(tmp_path: Path) -> None:
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        options = ["--scheduler", cluster.scheduler_address, "--out", "dask"]
        running = subprocess.Popen([KB, "sweep", *SWEEP, *options], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        while len(list(tmp_path.glob("dask/points/*/*.json"))) < 10:
            assert running.poll() is None, "the sweep has time for more than ten points"
            time.sleep(0.05)
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
        stdout, _ = running.communicate()
    found = json.loads(stdout)
    assert (found["computed"], found["failed"], len(found["points"])) == (72, 0, 72)
    assert len(list(tmp_path.glob("dask/points/*/*.json"))) == 72
    local = answer(tmp_path, "--out", "local")
    assert local["points"] == found["points"]
    again = answer(tmp_path, "--out", "dask", "-o", "points.parquet")
    assert (again["computed"], again["known"]) == (0, 72)
    rows = duckdb.sql(f"SELECT bw_gbs, M, tile, latency_ps FROM '{tmp_path / 'points.parquet'}'").fetchall()
    assert [row[3] for row in rows] == [point["result"]["latency_ps"] for point in found["points"]]


def test_workers_with_threads_are_refused(tmp_path: Path) -> None:
    with LocalCluster(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None) as cluster:
        command = [KB, "sweep", *SWEEP, "--scheduler", cluster.scheduler_address]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "got 2 threads" in ran.stderr
