"""Loops that sum more blocks than TCM holds, on a PE of an H100, whose TCM has 12 blocks of 4096 f32."""

from pathlib import Path

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_topology import load_topology
from kb_triton.host import Device, use

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


@pytest.fixture(autouse=True)
def h100(device):
    use(Device(load_topology(TOPOLOGIES / "devices/h100.yaml")))
    yield
    use(device)


@triton.jit
def rms_norm_kernel(x_ptr, y_ptr, w_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0).to(tl.float32)
        total += x * x
    scale = 1 / tl.sqrt(tl.sum(total, axis=0) / N + eps)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * N + at, x * scale * tl.load(w_ptr + at, mask=at < N), mask=at < N)


# 32 blocks leave a TCM that is full to the last byte when the first result is stored.
@pytest.mark.parametrize("n", [4096, 16 * 4096, 32 * 4096 - 100, 32 * 4096, 37 * 4096])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_an_rms_norm_of_any_length(n, dtype):
    x, w = np.random.default_rng(n).standard_normal((2, n)).astype(dtype), np.linspace(0.5, 1.5, n, dtype=np.float32)
    y = np.zeros((2, n), np.float32)
    rms_norm_kernel[(2,)](x, y, w, n, 1e-6, BLOCK=4096)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y, wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-6) * w, rtol=1e-5)


@triton.jit
def sums_kernel(x_ptr, y_ptr, z_ptr, N, BLOCK: tl.constexpr):
    total, squares = 0.0, 0.0
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + start + tl.arange(0, BLOCK))
        total += tl.sum(x)
        squares += tl.sum(x * x)
    tl.store(y_ptr, total)
    tl.store(z_ptr, squares)


@pytest.mark.parametrize("count", [11, 12, 13, 40])
def test_two_sums_of_any_number_of_blocks(count):
    x = np.random.default_rng(count).integers(-3, 4, count * 4096).astype(np.float32)
    y, z = np.zeros(1, np.float32), np.zeros(1, np.float32)
    sums_kernel[(1,)](x, y, z, x.size, BLOCK=4096)
    assert (y[0], z[0]) == (x.sum(), (x * x).sum())
