"""What MATH computes, from the kernel to the executor: every epilogue op, checked against numpy in float64."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kb_components.pe.pe_math import FUNCTIONS as COSTS
from kb_dataexec import Executor, MemoryLogWriter, OpLog, cast, compare, numpy_dtype
from kb_dataexec.arrays import FUNCTIONS as EXECUTED
from kb_engine import Engine, Host, read_tensor
from kb_messages import MATH_FUNCTIONS, DType, KbError
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]
ONE_PE = ROOT / "topologies/one_pe.yaml"
Array = npt.NDArray[Any]
M, N, K = 40, 52, 70
"""Ragged in every direction for tiles of 16 x 24 x 32."""


def execute(
    kernel: Callable[..., None], inputs: dict[str, Array], shape: tuple[int, int], dtype: DType, mode: str
) -> Array:
    """What *kernel* leaves in its last argument, the output, after both passes; in float64."""
    engine = Engine(load_topology(ONE_PE), MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    kinds = {numpy_dtype(dtype): dtype for dtype in DType}
    tensors = [host.tensor(name, each, kinds[each.dtype]) for name, each in inputs.items()]
    out = host.empty("out", shape, dtype)
    host.launch(kernel, *tensors, out)
    log = engine.close_log()
    assert engine.initial_memory is not None
    memory = Executor(log, engine.initial_memory, mode).run()  # type: ignore[arg-type]
    return read_tensor(memory, out).astype(np.float64)


def operands(dtype: DType) -> dict[str, Array]:
    rng = np.random.default_rng(7)
    shapes = {"a": (M, K), "b": (K, N), "row": (1, N), "matrix": (M, N)}
    return {name: cast(rng.standard_normal(shape, dtype=np.float32), dtype) for name, shape in shapes.items()}


def gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


OPS: dict[str, tuple[Callable[..., tuple[Any, ...]], Callable[[Array, Array, Array], Array]]] = {
    "bias": (lambda tl, row, matrix: (tl.bias(row),), lambda x, row, matrix: x + row),
    "loaded bias": (lambda tl, row, matrix: (tl.bias(tl.load(row)),), lambda x, row, matrix: x + row),
    "scale": (lambda tl, row, matrix: (tl.scale(0.25),), lambda x, row, matrix: x * 0.25),
    "scale by a row": (lambda tl, row, matrix: (tl.scale(row),), lambda x, row, matrix: x * row),
    "scale of k tiles": (lambda tl, row, matrix: (tl.scale(row, scope="k_tile"),), lambda x, row, matrix: x * row),
    "relu": (lambda tl, row, matrix: (tl.relu(),), lambda x, row, matrix: np.maximum(x, 0)),
    "gelu": (lambda tl, row, matrix: (tl.gelu(),), lambda x, row, matrix: gelu(x)),
    "silu": (lambda tl, row, matrix: (tl.silu(),), lambda x, row, matrix: x / (1 + np.exp(-x))),
    "dequant": (lambda tl, row, matrix: (tl.dequant(0.5, scope="k_tile"),), lambda x, row, matrix: x * 0.5),
    "dequant by a row": (lambda tl, row, matrix: (tl.dequant(row, scope="k_tile"),), lambda x, row, matrix: x * row),
    "residual": (lambda tl, row, matrix: (tl.residual(matrix),), lambda x, row, matrix: x + matrix),
    "cast": (lambda tl, row, matrix: (tl.cast("bf16"),), lambda x, row, matrix: x),
    "three in a row": (
        lambda tl, row, matrix: (tl.bias(row), tl.gelu(), tl.residual(matrix)),
        lambda x, row, matrix: gelu(x + row) + matrix,
    ),
    "both scopes": (
        lambda tl, row, matrix: (tl.dequant(row, scope="k_tile"), tl.bias(row), tl.relu(), tl.cast("f16")),
        lambda x, row, matrix: np.maximum(x * row + row, 0),
    ),
}


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32])
@pytest.mark.parametrize("name", OPS)
def test_an_epilogue_computes_what_it_says(name: str, dtype: DType, mode: str) -> None:
    epilogue, reference = OPS[name]

    def kernel(tl: Any, a: Any, b: Any, row: Any, matrix: Any, out: Any) -> None:
        tl.composite("gemm", a, b, out=out, tile=(16, 24, 32), epilogue=epilogue(tl, row, matrix))

    inputs = operands(dtype)
    got = execute(kernel, inputs, (M, N), dtype, mode)
    a, b, row, matrix = (each.astype(np.float64) for each in inputs.values())
    expected = reference(a @ b, row, matrix)
    rounding = max(dtype.info.unit_roundoff, 2.0**-8 if name == "cast" else 0, 2.0**-11 if name == "both scopes" else 0)
    # Sums of K products in f32, times a factor and a slope of at most 4; then the rounding of the result.
    sums = 4 * (np.abs(row).max() + 1) * np.sqrt(K) * 2.0**-24 * (np.abs(a) @ np.abs(b) + 1)
    assert (np.abs(got - expected) <= 2 * rounding * np.abs(expected) + sums + 1e-6).all()


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize("scope", ["k_tile", "output_tile"])
def test_dequant_makes_exact_integer_sums_floats(scope: str, mode: str) -> None:
    def kernel(tl: Any, a: Any, b: Any, row: Any, out: Any) -> None:
        tl.composite("gemm", a, b, out=out, tile=(16, 24, 32), epilogue=(tl.dequant(row, scope=scope), tl.relu()))

    rng = np.random.default_rng(7)
    a, b = rng.integers(-8, 8, (M, K)).astype(np.int8), rng.integers(-8, 8, (K, N)).astype(np.int8)
    row = rng.standard_normal((1, N), dtype=np.float32)
    got = execute(kernel, {"a": a, "b": b, "row": row}, (M, N), DType.F32, mode)
    expected = np.maximum(a.astype(np.float64) @ b * row, 0)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


COMPOSITES: dict[str, tuple[Callable[..., Any], Callable[[Array, Array], Array]]] = {
    "exp": (lambda tl, a, b, out: tl.composite("exp", a, out=out), lambda a, b: np.exp(a)),
    "add": (lambda tl, a, b, out: tl.composite("add", a, b, out=out, tile=(16, 24)), lambda a, b: a + b),
    "a number": (lambda tl, a, b, out: tl.composite("mul", a, 0.5, out=out, tile="16x24"), lambda a, b: a * 0.5),
    "a row": (
        lambda tl, a, b, out: tl.composite("maximum", b[0:1], a, out=out, tile=(16, 24)),
        lambda a, b: np.maximum(a, b[0:1]),
    ),
    "a column, loaded": (
        lambda tl, a, b, out: tl.composite("sub", a, tl.load(b[:, 3:4]), out=out, tile=(16, 24)),
        lambda a, b: a - b[:, 3:4],
    ),
    "two in a row": (
        lambda tl, a, b, out: tl.composite("add", tl.composite("silu", a), b, out=out),
        lambda a, b: a / (1 + np.exp(-a)) + b,
    ),
}
SIMPLE: dict[str, tuple[Callable[..., Any], Callable[[Array, Array], Array]]] = {
    "exp": (lambda tl, x, y: tl.exp(x), lambda x, y: np.exp(x)),
    "maximum": (lambda tl, x, y: tl.maximum(x, y), np.maximum),
    "minimum of a number": (lambda tl, x, y: tl.minimum(0.25, x), lambda x, y: np.minimum(x, 0.25)),
    "where": (lambda tl, x, y: tl.where(x > y, x, 0.0), lambda x, y: np.where(x > y, x, 0)),
    "where of a number first": (lambda tl, x, y: tl.where(x > y, -1, x), lambda x, y: np.where(x > y, -1, x)),
    "arithmetic": (lambda tl, x, y: (1 - (x + y) * x / 2 - y).to(x.dtype), lambda x, y: 1 - (x + y) * x / 2 - y),
    "a number over": (lambda tl, x, y: (1 / (2 + tl.abs(x))).to(x.dtype), lambda x, y: 1 / (2 + np.abs(x))),
    "sum over rows": (lambda tl, x, y: x * 0 + tl.sum(x, axis=0), lambda x, y: 0 * x + x.sum(0, keepdims=True)),
    "max over columns": (lambda tl, x, y: x - tl.max(x, axis=1), lambda x, y: x - x.max(1, keepdims=True)),
    "fma": (lambda tl, x, y: tl.fma(x, y, 0.5), lambda x, y: x * y + 0.5),
    "to f32 and back": (lambda tl, x, y: tl.sqrt(tl.abs(x.to("f32"))).to(x.dtype), lambda x, y: np.sqrt(np.abs(x))),
    "comparison": (lambda tl, x, y: tl.where(x >= y, x, y) - tl.where(y < x, 1, y), lambda x, y: np.maximum(x, y)
        - np.where(y < x, 1, y)),
}  # fmt: skip


def pair(dtype: DType) -> dict[str, Array]:
    rng = np.random.default_rng(11)
    return {name: cast(rng.standard_normal((M, N), dtype=np.float32), dtype) for name in "ab"}


def check(got: Array, expected: Array, dtype: DType, roundings: int) -> None:
    """Each of *roundings* steps may be off by half a place of values up to the largest there is."""
    allowed = roundings * (dtype.info.unit_roundoff + 2.0**-22) * (np.abs(expected) + 6)
    assert (np.abs(got - expected) <= allowed).all()


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32])
@pytest.mark.parametrize("name", COMPOSITES)
def test_a_composite_of_a_function_computes_what_it_says(name: str, dtype: DType, mode: str) -> None:
    start, reference = COMPOSITES[name]
    inputs = pair(dtype)

    def kernel(tl: Any, a: Any, b: Any, out: Any) -> None:
        tl.wait(start(tl, a, b, out))

    a, b = (each.astype(np.float64) for each in inputs.values())
    check(execute(kernel, inputs, (M, N), dtype, mode), reference(a, b), dtype, 3)


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32])
@pytest.mark.parametrize("name", SIMPLE)
def test_math_on_loaded_values_computes_what_it_says(name: str, dtype: DType, mode: str) -> None:
    compute, reference = SIMPLE[name]
    inputs = pair(dtype)

    def kernel(tl: Any, a: Any, b: Any, out: Any) -> None:
        tl.store(out, compute(tl, tl.load(a), tl.load(b)))

    a, b = (each.astype(np.float64) for each in inputs.values())
    check(execute(kernel, inputs, (M, N), dtype, mode), reference(a, b), dtype, 6)


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32])
def test_a_dot_of_loaded_values_is_a_product(dtype: DType, mode: str) -> None:
    def kernel(tl: Any, a: Any, b: Any, row: Any, matrix: Any, out: Any) -> None:
        tl.store(out, tl.dot(tl.load(a), tl.load(b)) + tl.load(matrix))

    inputs = operands(dtype)
    got = execute(kernel, inputs, (M, N), DType.F32, mode)
    a, b, _, matrix = (each.astype(np.float64) for each in inputs.values())
    np.testing.assert_allclose(got, a @ b + matrix, rtol=1e-5, atol=1e-4)


def test_the_tables_of_functions_agree() -> None:
    assert set(MATH_FUNCTIONS) == set(COSTS) == set(EXECUTED)
    for name, function in MATH_FUNCTIONS.items():
        executed = EXECUTED[name]
        assert (executed.arity, executed.float_only, executed.reduces) == (
            function.arity,
            function.float_only,
            function.reduces,
        ), name


def test_results_of_floats_are_pending_and_those_of_known_integers_are_known() -> None:
    seen: list[Any] = []

    def kernel(tl: Any, a: Any, b: Any, out: Any) -> None:
        x, y = tl.load(a), tl.load(b)
        seen.extend([x + 1, x > 0, y + 1, y > 0, tl.where(y > 0, 3, y), tl.sum(y + 2, axis=1), y.to("f32")])
        taken = "zero" if y[0, 0] == 0 and tl.sum(tl.sum(y, axis=0), axis=1) == 0 else "other"
        seen.append(taken)
        tl.store(out, y + 1)

    inputs = {"a": np.zeros((2, 3), np.float32), "b": np.zeros((2, 3), np.int8)}
    got = execute(kernel, inputs, (2, 3), DType.I8, "tile")
    np.testing.assert_array_equal(got, np.ones((2, 3)))
    assert seen.pop() == "zero"
    assert [each.is_pending for each in seen] == [True, True, False, False, False, False, True]
    assert [str(each.dtype) for each in seen] == ["f32", "bool", "i8", "bool", "i8", "i32", "f32"]
    np.testing.assert_array_equal(seen[4].data, np.zeros((2, 3)))
    np.testing.assert_array_equal(seen[5].data, [[6], [6]])


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_sum_over_all_axes_is_rounded_once(mode: str) -> None:
    """f16 has no 2049, which the first row adds up to: rounded, it would be 2048, and the sum of both rows 0."""

    def kernel(tl: Any, a: Any, out: Any) -> None:
        tl.store(out, tl.sum(tl.load(a)))

    rows = np.array([[1024, 1024, 1], [-1024, -1024, 0]], np.float16)
    assert execute(kernel, {"a": rows}, (1, 1), DType.F16, mode) == 1


INTEGERS: dict[str, tuple[Callable[..., Any], Callable[[Array, Array], Array]]] = {
    "floordiv and mod": (lambda tl, x, y: x // 3 * 5 + x % 3, lambda x, y: x // 3 * 5 + x % 3),
    "a number by": (lambda tl, x, y: 100 // (y * y + 1) - 7 % (y * y + 1), lambda x, y: 100 // (y * y + 1)
        - 7 % (y * y + 1)),
    "shifts": (lambda tl, x, y: (x << 2) + (x >> 1) + (1 << (y & 3)), lambda x, y: (x << 2) + (x >> 1)
        + (1 << (y & 3))),
    "bits": (lambda tl, x, y: (x | 6) ^ (x & y), lambda x, y: (x | 6) ^ (x & y)),
    "all bits": (lambda tl, x, y: ~x, lambda x, y: ~x),
    "no": (lambda tl, x, y: tl.where(~(x > y), x, y), np.minimum),
    "both": (lambda tl, x, y: tl.where((x > 0) & (y > 0), 1, x), lambda x, y: np.where((x > 0) & (y > 0), 1, x)),
    "a number less": (lambda tl, x, y: 5 - x, lambda x, y: 5 - x),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize("name", INTEGERS)
def test_integer_functions_are_known_in_the_kernel_and_computed_after_it(name: str, mode: str) -> None:
    seen: list[Any] = []
    function, reference = INTEGERS[name]

    def kernel(tl: Any, a: Any, b: Any, out: Any) -> None:
        seen.append(function(tl, tl.load(a), tl.load(b)))
        tl.store(out, seen[0])

    rng = np.random.default_rng(3)
    inputs = {each: rng.integers(-50, 50, (5, 9), np.int32) for each in "ab"}
    expected = reference(*inputs.values())
    np.testing.assert_array_equal(execute(kernel, inputs, (5, 9), DType.I32, mode), expected)
    np.testing.assert_array_equal(seen[0].data, expected)


def test_a_number_in_front_costs_no_rounding_in_between() -> None:
    def kernel(tl: Any, a: Any, out: Any) -> None:
        tl.store(out, (3 / tl.load(a)).to("f16"))

    inputs = {"a": np.arange(1, 2049, dtype=np.float16).reshape(32, 64)}
    got = execute(kernel, inputs, (32, 64), DType.F16, "tile")
    np.testing.assert_array_equal(got, (np.float32(3) / inputs["a"].astype(np.float32)).astype(np.float16))


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32])
@pytest.mark.parametrize(("m", "n", "rows"), [(64, 96, 32), (37, 50, 8), (1, 1, 4), (5, 300, 2)])
@pytest.mark.parametrize("topology", ["one_pe", "one_cube"])
def test_the_softmax_benchmark_is_within_its_tolerance(m: int, n: int, rows: int, dtype: DType, topology: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        softmax = import_module("softmax")
    bench, p = softmax.Softmax(), softmax.SoftmaxParams(M=m, N=n, rows=rows, dtype=dtype)
    inputs = bench.inputs(p, np.random.default_rng(0))
    engine = Engine(load_topology(ROOT / f"topologies/{topology}.yaml"), MemoryLogWriter())
    out = bench.launch(Host(engine, ROOT), p, inputs)["y"]
    log = engine.close_log()
    assert engine.initial_memory is not None
    expected = bench.reference(p, inputs)
    for mode in ("tile", "fused"):
        got = read_tensor(Executor(log, engine.initial_memory, mode).run(), out)  # type: ignore[arg-type]
        comparison = compare("y", got, expected["y"], bench.tolerance(p, inputs, expected)["y"])
        assert comparison.ok, comparison


def with_everything(tl: Any, a: Any, b: Any, row: Any, matrix: Any, out: Any) -> None:
    epilogue = (tl.dequant(row, scope="k_tile"), tl.bias(row), tl.relu(), tl.cast("f16"), tl.residual(matrix))
    tl.wait(tl.composite("gemm", a, b, out=out, tile=(16, 24, 32), epilogue=epilogue))
    x = tl.load(out)
    tl.store(out, tl.exp((x - tl.max(x, axis=1)) * 0.1) + x)
    tl.composite("mul", out, 3.0, out=out, tile=(16, 24))


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_no_record_can_be_left_out_unnoticed(mode: Any) -> None:
    engine = Engine(load_topology(ONE_PE), MemoryLogWriter())
    host = Host(engine, ROOT)
    sizes = {"a": (20, 40), "b": (40, 30), "row": (1, 30), "matrix": (20, 30)}
    rng = np.random.default_rng(0)
    tensors = [host.tensor(name, rng.standard_normal(shape, dtype=np.float32), "f32") for name, shape in sizes.items()]
    out = host.empty("out", (20, 30), "f32")
    host.launch(with_everything, *tensors, out)
    log, memory = engine.close_log(), engine.initial_memory
    assert isinstance(log, OpLog)
    assert memory is not None
    right = read_tensor(Executor(log, memory, mode).run(), out)

    def is_unnoticed(op_id: int) -> bool:
        kept = [table[table["op_id"] != op_id] for table in (log.ops, log.operands)]
        try:
            got = read_tensor(Executor(OpLog(*kept, log.strings, is_complete=False), memory, mode).run(), out)
        except KbError:
            return False
        return np.allclose(got, right, rtol=1e-5, atol=1e-5)

    assert {record.name for record in log.records()} == {"dma_read", "fetch", "gemm", "math", "store", "dma_write"}
    assert [op_id for op_id in log.ops["op_id"].tolist() if is_unnoticed(op_id)] == []
