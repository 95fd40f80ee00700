"""Kernels as Inductor generates them, and functions under torch.compile, on a simulated chip."""

import os
import subprocess
import sys
from pathlib import Path

GENERATED = """\
import torch
import triton
import triton.language as tl
from torch._C import _cuda_getCurrentRawStream as get_raw_stream
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties, ReductionHint
from torch._inductor.runtime.triton_helpers import math as tl_math

DEVICE = DeviceProperties(
    type="cuda", index=0, multi_processor_count=8, cc=90, major=9, regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048, warp_size=32,
)
META = {
    "autotune_hints": set(), "mutated_arg_names": [], "optimize_mem": True, "no_x_dim": False, "num_load": 1,
    "num_reduction": 1, "backend_hash": "0",
}
INPUT_OUTPUT = {"source": "*fp32", "target": "*fp32", "xnumel": "i32", "r0_numel": "i32", "XBLOCK": "constexpr"}


@triton_heuristics.persistent_reduction(
    size_hints={"x": 16, "r0_": 128}, reduction_hint=ReductionHint.INNER, filename=__file__,
    triton_meta={"signature": INPUT_OUTPUT, "device": DEVICE, "constants": {}, "configs": [{}]},
    inductor_meta={**META, "grid_type": "Grid1D", "kernel_name": "softmax"},
)
@triton.jit
def softmax(source, target, xnumel, r0_numel, XBLOCK: tl.constexpr):
    R0_BLOCK: tl.constexpr = 128
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    column = tl.arange(0, R0_BLOCK)[None, :]
    inside = (row < xnumel) & (column < r0_numel)
    x = tl.load(source + (column + 100 * row), inside, other=0.0)
    most = triton_helpers.max2(tl.where(inside, x, float("-inf")), 1)[:, None]
    power = tl_math.exp(x - most)
    total = tl.sum(tl.where(inside, power, 0), 1)[:, None]
    tl.store(target + (column + 100 * row), power / total, inside)


@triton_heuristics.reduction(
    size_hints={"x": 16, "r0_": 4096}, reduction_hint=ReductionHint.INNER, filename=__file__,
    triton_meta={
        "signature": {**INPUT_OUTPUT, "R0_BLOCK": "constexpr"}, "device": DEVICE, "constants": {}, "configs": [{}],
    },
    inductor_meta={**META, "grid_type": "Grid1D", "kernel_name": "summed"},
)
@triton.jit
def summed(source, target, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    row = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    total = tl.full([XBLOCK, R0_BLOCK], 0, tl.float32)
    for offset in range(0, r0_numel, R0_BLOCK):
        column = offset + tl.arange(0, R0_BLOCK)[None, :]
        inside = (row < xnumel) & (column < r0_numel)
        total += tl.load(source + (column + 3000 * row), inside, eviction_policy="evict_first", other=0.0)
    tl.store(target + row, tl.sum(total, 1)[:, None], row < xnumel)


@triton_heuristics.user_autotune(
    configs=[{"BLOCK": 64, "num_warps": 4}, {"BLOCK": 256, "num_warps": 4}], filename=__file__, custom_kernel=True,
    triton_meta={
        "signature": {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, "device": DEVICE, "constants": {},
        "configs": [{}],
    },
    inductor_meta={
        "kernel_name": "users", "grid_type": "FixedGrid", "fixed_grid": ["_grid_0", "_grid_1", "_grid_2"],
        "extra_launcher_args": ["_grid_0", "_grid_1", "_grid_2"],
    },
)
@triton.jit
def users(x, n, BLOCK: tl.constexpr):
    for at in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        inside = at + tl.arange(0, BLOCK) < n
        tl.store(x + at + tl.arange(0, BLOCK), tl.load(x + at + tl.arange(0, BLOCK), inside) + 1, inside)


stream = get_raw_stream(0)
x = torch.randn(10, 100, device="cuda")
y = torch.empty_like(x)
softmax.run(x, y, 10, 100, stream=stream)
torch.testing.assert_close(y, torch.softmax(x, 1))
x, y = torch.randn(10, 3000, device="cuda"), torch.empty(10, device="cuda")
summed.run(x, y, 10, 3000, stream=stream)
torch.testing.assert_close(y, x.sum(1), rtol=1e-4, atol=1e-4)
x = torch.zeros(1000, device="cuda")
users.run(x, 1000, 3, 1, 1, stream=stream)
assert x.tolist() == [1] * 1000
try:
    softmax.run(x, x, 1, 1, 1, 1, stream=stream)
except Exception as error:
    print(error)

compiling = AsyncCompile()
transposed_sum = compiling.triton("transposed_sum", '''
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties, TileHint
triton_helpers.set_driver_to_gpu()

@triton_heuristics.pointwise(
    size_hints={"y": 64, "x": 64}, tile_hint=TileHint.SQUARE, filename=__file__,
    triton_meta={
        "signature": {
            "a": "*fp32", "b": "*fp32", "out": "*fp32", "ynumel": "i32", "xnumel": "i32", "YBLOCK": "constexpr",
            "XBLOCK": "constexpr",
        },
        "device": DeviceProperties(
            type="cuda", index=0, multi_processor_count=8, cc=90, major=9, regs_per_multiprocessor=65536,
            max_threads_per_multi_processor=2048, warp_size=32,
        ),
        "constants": {}, "configs": [{}],
    },
    inductor_meta={
        "grid_type": "Grid2D", "autotune_hints": set(), "kernel_name": "transposed_sum", "mutated_arg_names": [],
        "no_x_dim": False, "num_load": 2, "num_reduction": 0, "backend_hash": "0",
    },
    min_elem_per_thread=0,
)
@triton.jit
def transposed_sum(a, b, out, ynumel, xnumel, YBLOCK: tl.constexpr, XBLOCK: tl.constexpr):
    y = tl.program_id(1) * YBLOCK + tl.arange(0, YBLOCK)[:, None]
    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[None, :]
    inside = (x < xnumel) & (y < ynumel)
    tl.store(out + (x + 50 * y), tl.load(a + (x + 50 * y), inside) + tl.load(b + (y + 40 * x), inside), inside)
''', device_str="cuda")
compiling.wait(globals())
a, b, c = torch.randn(40, 50, device="cuda"), torch.randn(50, 40, device="cuda"), torch.empty(40, 50, device="cuda")
transposed_sum.run(a, b, c, 40, 50, stream=stream)
assert torch.equal(c, a + b.T)
print("as torch")
"""
COMPILED = """\
import sys

import torch
import triton
import triton.language as tl

DEVICE = sys.argv[1]


def add_one(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


plain = triton.jit(add_one)
tuned = triton.autotune([triton.Config({"B": 64}), triton.Config({"B": 256})], key=["n"])(plain)
guessed = triton.heuristics({"B": lambda arguments: 128})(plain)


def stepped(kernel, **constants):
    def step(x):
        y = torch.empty_like(x)
        kernel[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x, y, x.numel(), **constants)
        return y * 2

    return step


class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return stepped(plain, B=256)(x)

    @staticmethod
    def backward(ctx, grad):
        return stepped(plain, B=256)(grad.contiguous())


x = torch.randn(1000, device=DEVICE)
OPTIONS = [{}, {"dynamic": True}, {"mode": "max-autotune"}, {"backend": "aot_eager"}]
for step in (stepped(plain, B=256), stepped(tuned), stepped(guessed)):
    for options in OPTIONS if DEVICE == "cuda" else OPTIONS[:1]:  # elsewhere Inductor compiles C++, which takes long
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(step, **options)(x), (x + 1) * 2)
z = x.detach().requires_grad_(True)
torch.compile(lambda x: Op.apply(3 * x).sum())(z).backward()
torch.testing.assert_close(z.grad, torch.full_like(x, 12.0))
torch.testing.assert_close(torch.compile(lambda x: torch.relu(x) * 2, fullgraph=True)(x), torch.relu(x) * 2)
try:
    torch._dynamo.reset()
    torch.compile(stepped(plain, B=256), fullgraph=True)(x)
except Exception as error:
    print(error)
print("as torch")
"""


def run(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs *script* by `kb exec`, with the *arguments* of kb and of the script."""
    (folder / "script.py").write_text(script, encoding="utf-8")
    (folder / "run.py").write_text("import sys\nfrom kb_cli.main import main\nmain(sys.argv[1:])\n", encoding="utf-8")
    # The compiler's cache of a user is left alone, and a worker of the compiler would have no kb.
    env = {**os.environ, "PYTHONPATH": "", "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-m", "run", "exec", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)


def test_kernels_of_inductor_run_as_they_are(tmp_path: Path) -> None:
    done = run(tmp_path, GENERATED, "--pretend", "cuda", "script.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as torch" in done.stdout
    assert "launch of softmax: got 6 arguments, needs 4: source, target, xnumel, r0_numel" in done.stdout
    assert "autotune of softmax" in done.stdout


def test_compiled_functions_launch_kernels(tmp_path: Path) -> None:
    for options, device in (([], "cpu"), (["--pretend", "cuda"], "cuda")):
        done = run(tmp_path, COMPILED, *options, "script.py", device)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "as torch" in done.stdout
        assert "a launch runs on the simulated chip and is no part of a graph; leave out fullgraph=True" in done.stdout
