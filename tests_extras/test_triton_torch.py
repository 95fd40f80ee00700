"""Triton kernels on CPU tensors of torch: unmodified test files with autograd, views, addresses, and code for CUDA."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOPOLOGIES = Path(__file__).parents[1] / "topologies"
TEST_FILE = """
import torch
import triton
import triton.language as tl
import pytest

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.jit
def square_forward(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x * x, mask=at < n)


@triton.jit
def square_backward(x_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    dy = tl.load(dy_ptr + at, mask=at < n)
    tl.store(dx_ptr + at, 2.0 * x * dy, mask=at < n)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        square_forward[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        square_backward[(triton.cdiv(x.numel(), 256),)](x, dy.contiguous(), dx, x.numel(), BLOCK=256)
        return dx


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3, 100), (1000,), (7, 11, 13)])
def test_square(shape, dtype):
    torch.manual_seed(0)
    x = torch.randn(shape, device=DEVICE, dtype=dtype, requires_grad=True)
    y = Square.apply(x)
    torch.testing.assert_close(y, x * x)
    g = torch.randn_like(y)
    y.backward(g)
    torch.testing.assert_close(x.grad, 2 * x * g, rtol=1e-2, atol=1e-2)
    triton.testing.assert_close(y, x * x)


@triton.jit
def gather_kernel(ptrs, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x_ptr = tl.load(ptrs + row).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + row * BLOCK + at, tl.load(x_ptr + at))


def test_addresses_in_a_tensor():
    rows = [torch.randn(64) for _ in range(3)]
    out = torch.empty(3, 64)
    gather_kernel[(3,)](torch.tensor([each.data_ptr() for each in rows]), out, BLOCK=64)
    assert torch.equal(out, torch.stack(rows))


@triton.jit
def transpose_kernel(x_ptr, out_ptr, sx, so, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i[:, None] * so + i[None, :], tl.load(x_ptr + i[:, None] + i[None, :] * sx))


def test_views():
    whole = torch.arange(2 * 16 * 20, dtype=torch.float32).reshape(2, 16, 20)
    x, out = whole[1, :, 4:], torch.zeros(16, 40)[:, 10:26]
    transpose_kernel[(1,)](x, out, x.stride(0), out.stride(0), N=16)
    assert torch.equal(out, x.t())
    assert not out._base[:, :10].any()
    assert not out._base[:, 26:].any()


def test_an_expanded_tensor():
    x, out = torch.ones(1).expand(64), torch.empty(64, 64)
    with pytest.raises(Exception, match=r"expanded array, so elements share memory: pass x_ptr\\.contiguous\\(\\)"):
        transpose_kernel[(1,)](x, out, 1, 64, N=64)
    transpose_kernel[(1,)](x.contiguous(), out, 0, 64, N=64)
    assert torch.equal(out, torch.ones(64, 64))
"""
CUDA = """
import torch
import triton
import triton.language as tl
from torch.utils._triton import has_triton_package


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def copied(x):
    assert x.is_cuda
    y = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    return y


assert torch.cuda.is_available() and torch.cuda.get_device_properties(0).multi_processor_count == 8
assert triton.runtime.driver.active.get_current_target().backend == "cuda"
x = torch.randn(1000, device="cuda")
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
assert torch.equal(copied(x), x)
end.record()
torch.cuda.synchronize()
assert 0 < start.elapsed_time(end) < 1
assert torch.equal(copied(torch.ones(5).cuda()), torch.ones(5).to("cuda:0"))
with torch.accelerator.device_index(x.device.index):
    assert torch.accelerator.current_device_index() == 0 and torch.accelerator.current_accelerator().type == "cuda"
torch.accelerator.synchronize()
assert has_triton_package()  # a library asks torch, which itself sees none
asked = {"__name__": "torch.asks", "has_triton_package": has_triton_package}
assert not eval("has_triton_package()", asked)
x = torch.ones(5, device="cuda")
assert (x.device.type, x.is_cuda, str(x.device)) == ("cuda", True, "cuda:0")
y = torch.full_like(x, 2.0) - torch.ones(5, device=x.device)
torch.testing.assert_close(x, y)
assert copied(y.detach().clone().requires_grad_()).device == x.device
torch.manual_seed(7)
assert isinstance(torch.Generator(device="cuda"), torch.Generator)
assert isinstance(torch.default_generator, torch.Generator)
assert (torch.device("cuda").type, x.get_device(), torch.version.cuda is not None) == ("cuda", 0, True)
torch.cuda.set_sync_debug_mode("error")
x.record_stream(torch.cuda.current_stream())
torch.cuda.Stream().record_event().synchronize()
torch.cuda.set_stream(torch.cuda.Stream())
with torch.cuda._DeviceGuard(x.device.index), torch.cuda.device(0):  # as code that FlagGems and Inductor generate
    from torch._C import _cuda_getCurrentRawStream

    here = torch.cuda.current_device()
    assert _cuda_getCurrentRawStream(here) == torch.cuda.current_stream().cuda_stream
    assert torch._C._dynamo.guards._empty_strided_cuda((2, 3), (1, 2), torch.float16).stride() == (1, 2)
assert all(each.is_cuda for each in (torch.ones(2, device=here), torch.ones(2).to(here), torch.ones(2).pin_memory()))
assert torch.equal(torch.ones(2).to(here, torch.float16), torch.ones(2, dtype=torch.float16))
assert torch.device(0) == torch.device("cuda:0")
torch.cuda.nvtx.range_push("copy")
torch.cuda.nvtx.range_pop()
torch.cuda.seed()
assert torch.cuda.initial_seed() == torch.initial_seed()
try:
    torch.cuda.CUDAGraph()
except Exception as error:
    assert str(error) == "--pretend cuda: got a CUDA graph, needs launches; call what the graph replays"
else:
    raise AssertionError("a graph was made")
seen = []


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value * 2

    @staticmethod
    def backward(ctx, gradient):
        seen.append(gradient.is_cuda)
        return gradient * 2


z = torch.ones(3, device="cuda", requires_grad=True)
Doubled.apply(z).sum().backward()
torch.autograd.grad(Doubled.apply(z).sum(), z)
assert seen == [True, True]
print("all of it ran", x)
"""


GENERATED = """\
import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice


@triton.jit
def normed(x_ptr, y_ptr, most_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)[None, :]
    inside = tl.arange(0, BLOCK)[None, :] < n
    x = tl.load(x_ptr + at, inside, other=0.0)
    weight = inside.to(tl.float32)
    mean, squares, count = triton_helpers.welford(x, weight * 0, weight, 1)
    mean = mean[:, None]
    scale = libdevice.rsqrt(squares[:, None] / count[:, None] + 1e-5)
    tl.store(y_ptr + at, triton_helpers.maximum((x - mean) * scale, 0), inside)
    most = triton_helpers.max2(tl.where(inside, x, float("-inf")), 1)
    tl.store(most_ptr + tl.program_id(0) + tl.arange(0, 1), most)


x = torch.randn(5, 100, device="cuda")
y, most = torch.empty_like(x), torch.empty(5, device="cuda")
normed[(5,)](x, y, most, 100, BLOCK=128)
torch.testing.assert_close(y, torch.relu(torch.nn.functional.layer_norm(x, (100,))), rtol=1e-4, atol=1e-5)
assert torch.equal(most, x.max(1).values)
print("as layer_norm")
"""


COMPILED = """\
import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton


@triton.jit
def doubling(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def doubled(x):
    out = torch.empty_like(x)
    doubling[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


@triton_op("kernbench::doubled", mutates_args={})
def op(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(doubling)[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def test_launches_of_compiled_functions_run():
    x = torch.randn(100)
    torch.testing.assert_close(torch.compile(lambda x: doubled(x) + 1, backend="eager")(x), x * 2 + 1)
    torch.testing.assert_close(op(x), x * 2)
"""


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": "", **environment}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("topology", ["one_cube", "one_sip"])
def test_an_unmodified_test_file_passes(tmp_path: Path, topology: str) -> None:
    (tmp_path / "test_op.py").write_text(TEST_FILE, encoding="utf-8")
    chip = str(TOPOLOGIES / f"{topology}.yaml")
    done = run(tmp_path, "pytest", "-q", "-p", "kb_triton", "-p", "no:cacheprovider", "test_op.py", KB_TOPOLOGY=chip)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 passed" in done.stdout
    assert "kb_triton: 21 launches, " in done.stdout


def test_compiled_functions_and_ops_launch_kernels(tmp_path: Path) -> None:
    (tmp_path / "test_op.py").write_text(COMPILED, encoding="utf-8")
    done = run(tmp_path, "pytest", "-q", "-p", "kb_triton", "-p", "no:cacheprovider", "test_op.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_host_code_for_cuda_runs_when_asked(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(CUDA, encoding="utf-8")
    (tmp_path / "run.py").write_text("import sys\nfrom kb_cli.main import main\nmain(sys.argv[1:])\n", encoding="utf-8")
    done = run(tmp_path, "run", "exec", "--pretend", "cuda", "script.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all of it ran" in done.stdout
    refused = run(tmp_path, "run", "exec", "script.py")
    assert refused.returncode == 1
    assert "AssertionError" in refused.stderr


def test_generated_kernels_find_their_helpers(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(GENERATED, encoding="utf-8")
    (tmp_path / "run.py").write_text("import sys\nfrom kb_cli.main import main\nmain(sys.argv[1:])\n", encoding="utf-8")
    done = run(tmp_path, "run", "exec", "--pretend", "cuda", "script.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as layer_norm" in done.stdout
