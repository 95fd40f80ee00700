"""`kb_triton.launch`: Triton kernels inside a Benchmark, on tensors of its host."""

from pathlib import Path

import numpy as np
import pytest

import kb_triton
import kb_triton as triton
import kb_triton.language as tl
from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Engine, Host, read_tensor
from kb_messages import DType, KernelError
from kb_triton.runtime import Config, autotune


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * factor, mask=at < n)


@pytest.fixture
def host(one_cube):
    return Host(Engine(one_cube, MemoryLogWriter()), Path(__file__).parent)


def outcome(host, out):
    memory = Executor(host.engine.close_log(), host.engine.initial_memory).run()
    return read_tensor(memory, out)


@pytest.mark.parametrize("tuned", [False, True])
def test_a_kernel_runs_on_tensors_of_the_host(host, device, tuned):
    kernel, named = scale_kernel, {"BLOCK": 64}
    if tuned:
        kernel, named = autotune([Config({"BLOCK": each}) for each in (64, 256)], ["n"])(scale_kernel), {}
    x = np.arange(1000, dtype=np.float32)
    placed, out = host.tensor("x", x, DType.F32), host.empty("out", (10, 100), DType.F32)
    result = kb_triton.launch(host, kernel, lambda meta: (-(-1000 // meta["BLOCK"]),), placed, out, 1000, 3.0, **named)
    assert len(result.programs) == 16
    assert host.launches == [result]
    assert kb_triton.current() is device
    np.testing.assert_array_equal(outcome(host, out).reshape(-1), 3 * x)


def test_tensors_that_are_no_flat_bytes_are_refused(host):
    placed = host.empty("x", (8, 8), DType.F32, blocks=(8, 1))
    with pytest.raises(KernelError) as caught:
        kb_triton.launch(host, scale_kernel, (1,), placed, placed, 64, 1.0, BLOCK=64)
    assert str(caught.value) == (
        "tensor x: got one that is cut, copied or mapped, needs a flat tensor; leave out blocks=, slices=, shard= and "
        "host.map"
    )


def test_a_grid_without_programs_is_refused(host):
    placed = host.empty("x", (64,), DType.F32)
    with pytest.raises(KernelError) as caught:
        kb_triton.launch(host, scale_kernel, (0,), placed, placed, 64, 1.0, BLOCK=64)
    assert str(caught.value) == "launch of scale_kernel: got a grid without programs, needs at least one program"
