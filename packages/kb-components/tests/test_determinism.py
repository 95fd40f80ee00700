"""Equal runs give equal logs and traces, logging changes no time, and neither does an idle neighbour."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from components_two_cubes import HOST


def kernel(tl, a, b, c):
    x = tl.load(a[0:16, 0:32])
    for _ in range(2):
        tl.wait(tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)))
    tl.composite("gemm", x, b[0:32], tile=(8, 24, 16))
    tl.store(a[0:16, 0:32], x)


ARGUMENTS = (40, 48, "f16"), (48, 24, "f16"), (40, 24, "f16")

SCRIPT = """
import sys
from hashlib import sha256
from pathlib import Path
import msgspec
import numpy as np
from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host
from kb_engine.observe import Callbacks
from kb_topology import load_topology
from kernel_file import kernel

writer = MemoryLogWriter()
trace = []
engine = Engine(load_topology(sys.argv[1]), writer, [Callbacks(on_trace=trace.append)])
host = Host(engine, Path.cwd())
tensors = [host.tensor(f"t{n}", np.zeros(s, np.float16), "f16") for n, s in enumerate([(40, 48), (48, 24), (40, 24)])]
host.launch(kernel, *tensors, pes=(0, 1))
print(engine.close_log().digest, sha256(msgspec.json.Encoder().encode_lines(trace)).hexdigest())
"""

KERNEL = """
def kernel(tl, a, b, c):
    x = tl.load(a[0:16, 0:32])
    tl.wait(tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)))
    kept = {}
    for row in range(16):  # values go back in another order than they came
        kept[f"name {row % 5}"] = tl.exp(tl.load(a[row : row + 1]) + 1)
        if len(kept) == 4:
            del kept[min(kept)]
        cycle = [tl.load(a[row : row + 1])]
        cycle.append(cycle)
        tl.composite("add", kept[f"name {row % 5}"], 1.0) if f"name {row % 5}" in kept else None
    tl.store(a[0:16, 0:32], x)
"""


def test_two_runs_write_the_same_log(simulate, two_pes):
    runs = [simulate(kernel, *ARGUMENTS, pes=(0, 1), changes=two_pes) for _ in range(2)]
    assert runs[0].digest == runs[1].digest != ""
    assert runs[0].launch == runs[1].launch
    assert runs[0].trace == runs[1].trace != []


@pytest.mark.parametrize("with_host", [False, True])
def test_log_and_trace_do_not_depend_on_hashing(chip, two_pes, with_host, tmp_path: Path):
    (tmp_path / "chip.yaml").write_text(chip(*(HOST if with_host else two_pes)).source.text)
    (tmp_path / "kernel_file.py").write_text(KERNEL)
    digests = set()
    for seed in ("0", "1", "2"):
        paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, "chip.yaml"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        digests.add(done.stdout.strip())
    assert len(digests) == 1
    assert [len(digest) for digest in digests.pop().split()] == [64, 64]


@pytest.mark.parametrize("scarce", [(), (("size: 64 KiB", "size: 2400 B"), ("clock_ghz: 1.0", "clock_ghz: 0.1"))])
def test_without_a_log_everything_takes_as_long(simulate, two_pes, scarce):
    logged = simulate(kernel, *ARGUMENTS, pes=(0, 1), changes=(*two_pes, *scarce))
    silent = simulate(kernel, *ARGUMENTS, pes=(0, 1), changes=(*two_pes, *scarce), log=False)
    assert silent.launch == logged.launch
    assert silent.trace == logged.trace
    assert silent.engine.session.n_ops == logged.engine.session.n_ops


@pytest.mark.parametrize("changes", [(), (("queue_depth: 4", "queue_depth: 1"), ("clock_ghz: 1.0", "clock_ghz: 0.25"))])
def test_an_idle_neighbour_changes_no_time(simulate, two_pes, changes):
    # With one PE nothing merges and whole transfers are reserved ahead; with two, each is put in order by events.
    alone = simulate(kernel, *ARGUMENTS, changes=changes)
    beside = simulate(kernel, *ARGUMENTS, changes=(*changes, *two_pes))
    assert alone.records == beside.records
    assert alone.trace == beside.trace
    assert alone.launch == beside.launch
