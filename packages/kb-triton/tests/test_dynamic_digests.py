"""Programs of a dynamic schedule have equal logs: in a second run, over hash seeds, and without templates."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_topology import load_topology
from kb_triton.host import Device, using
from kb_triton.host.options import issuing

BLOCK, ROWS = 16, 24
"""Programs of a grid, three for each of the eight PEs."""


@triton.jit
def numbered_kernel(x, y, sizes, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for at in range(row * 7 % 12 + 1):
        total += tl.load(x + at * BLOCK + tl.arange(0, BLOCK))
    tl.store(y + row * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def ragged_kernel(x, y, sizes, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for at in range(tl.load(sizes + row)):
        total += tl.load(x + at * BLOCK + tl.arange(0, BLOCK))
    tl.store(y + row * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def ticket_kernel(x, y, sizes, BLOCK: tl.constexpr):
    row = tl.atomic_add(sizes, 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for at in range(row % 5 + 1):
        total += tl.exp(tl.load(x + at * BLOCK + tl.arange(0, BLOCK)))
    tl.store(y + row * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def halving_kernel(x, y, sizes, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    values = tl.load(x + row * BLOCK + tl.arange(0, BLOCK))
    while tl.max(tl.abs(values)) > 0.25:
        values = values * 0.5
    tl.store(y + row * BLOCK + tl.arange(0, BLOCK), values)


KERNELS = numbered_kernel, ragged_kernel, ticket_kernel, halving_kernel
TOPOLOGY = load_topology(Path(__file__).parents[3] / "topologies" / "one_cube.yaml")


def launched(kernel):
    """Launches *kernel* and compares its result with numpy's."""
    x = np.random.default_rng(0).standard_normal((ROWS, BLOCK), dtype=np.float32)
    sizes = np.zeros(ROWS, np.int32) if kernel is ticket_kernel else np.arange(ROWS, dtype=np.int32) * 5 % 12
    y = np.empty_like(x)
    kernel[(ROWS,)](x, y, sizes.copy(), BLOCK=BLOCK)
    exact, number = x.astype(np.float64), np.arange(ROWS)
    if kernel is halving_kernel:
        expected = exact / 2 ** np.maximum(np.ceil(np.log2(abs(exact).max(1) / 0.25)), 0)[:, None]
    else:
        lengths = {numbered_kernel: number * 7 % 12 + 1, ragged_kernel: sizes, ticket_kernel: number % 5 + 1}[kernel]
        terms = np.exp(exact) if kernel is ticket_kernel else exact
        expected = np.stack([terms[:length].sum(0) for length in lengths])
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def digests(schedule="dynamic", templates=True, issue="scoreboard"):
    """The digest of the log of each kernel's launch."""
    found, topology = [], issuing(TOPOLOGY, issue)
    noted = {"on_launch": lambda run: found.append(run.log.digest)}
    with using(Device(topology, schedule=schedule, templates=templates, **noted)):
        for kernel in KERNELS:
            launched(kernel)
    return found


first_digests = cache(digests)


@pytest.mark.parametrize("issue", ["blocking", "scoreboard", "decoupled"])
def test_logs_are_equal_in_a_second_run_and_without_templates(issue):
    first = first_digests(issue=issue)
    assert first == digests(issue=issue) == digests(issue=issue, templates=False)
    assert len(set(first)) == len(KERNELS)


def test_a_static_schedule_has_other_logs():
    dynamic = first_digests(issue="scoreboard")
    assert all(one != other for one, other in zip(dynamic, digests("static"), strict=True))


def test_logs_are_equal_with_another_hash_seed():
    run = "import sys; sys.path.insert(0, sys.argv[1]); import test_dynamic_digests as test; print(test.digests())"
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # another one than that of this process
    done = subprocess.run(
        [sys.executable, "-c", run, str(Path(__file__).parent)],
        capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed},
    )  # fmt: skip
    assert done.stdout == f"{first_digests(issue='scoreboard')}\n"
