"""What a GEMM computes, from the kernel to the executor: every way to ask for it, against numpy in float64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec import Executor, MemoryLogWriter, MemoryStore, OpLog, cast
from kb_dataexec.backends import NumpyBackend
from kb_engine import Engine, Host, Tensor, read_tensor
from kb_messages import DType, KbError, LoopOrder, Role
from kb_topology import load_topology

Array = npt.NDArray[Any]
ONE_PE = load_topology(Path(__file__).parents[1] / "topologies/one_pe.yaml")
DTYPES = (DType.F32, DType.F16, DType.BF16)


class Ways(NamedTuple):
    """How a GEMM is asked for: what is stored transposed, what is loaded first, and what follows the product."""

    transpose_a: bool = False
    transpose_b: bool = False
    b_stream: bool = False
    a_pinned: bool = False
    b_pinned: bool = False
    out_stays: bool = False
    epilogue: str = "none"
    loop_order: str = "mnk"


EPILOGUES: dict[str, tuple[Callable[..., tuple[Any, ...]], Callable[[Array, Array, Array], Array]]] = {
    "none": (lambda tl, row, column: (), lambda x, row, column: x),
    "bias by row": (lambda tl, row, column: (tl.bias(column),), lambda x, row, column: x + column),
    "loaded bias": (lambda tl, row, column: (tl.bias(tl.load(column)),), lambda x, row, column: x + column),
    "scale by row": (lambda tl, row, column: (tl.scale(column),), lambda x, row, column: x * column),
    "both": (lambda tl, row, column: (tl.scale(column), tl.bias(row)), lambda x, row, column: x * column + row),
    "dequant by row": (
        lambda tl, row, column: (tl.dequant(column, scope="k_tile"), tl.relu()),
        lambda x, row, column: np.maximum(x * column, 0),
    ),
}


class Ran(NamedTuple):
    """What a run leaves for pass 2, and what is expected of it."""

    log: OpLog
    memory: MemoryStore
    out: Tensor
    expected: Array
    bound: Array

    def result(self, mode: str, log: OpLog | None = None, fuse_from: int = 64) -> Array:
        memory = Executor(log or self.log, self.memory, mode, fuse_from=fuse_from).run()  # type: ignore[arg-type]
        return read_tensor(memory, self.out).astype(np.float64)


def run(shape: tuple[int, int, int], tile: tuple[int, int, int], dtype: DType, ways: Ways) -> Ran:
    m, n, k = shape
    rng = np.random.default_rng(m * 10000 + n * 100 + k)
    shapes = {"a": (m, k), "b": (k, n), "row": (1, n), "column": (m, 1)}
    values = {name: cast(rng.standard_normal(each, dtype=np.float32), dtype) for name, each in shapes.items()}
    stored = dict(values)
    if ways.transpose_a:
        stored["a"] = np.ascontiguousarray(values["a"].T)
    if ways.transpose_b:
        stored["b"] = np.ascontiguousarray(values["b"].T)
    made, reference = EPILOGUES[ways.epilogue]

    def kernel(tl: Any, a: Any, b: Any, row: Any, column: Any, out: Any) -> None:
        left, right = tl.load(a) if ways.a_pinned else a, tl.load(b) if ways.b_pinned else b
        left = left.T if ways.transpose_a else left
        right = tl.trans(right) if ways.transpose_b else right
        target = None if ways.out_stays else out
        epilogue = made(tl, row, column)
        how = {"epilogue": epilogue, "b_stream": ways.b_stream, "loop_order": ways.loop_order}
        handle = tl.composite("gemm", left, right, out=target, tile=tile, **how)
        tl.wait(handle)
        if ways.out_stays:
            tl.store(out, handle)

    engine = Engine(ONE_PE, MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    tensors = [host.tensor(name, each, dtype) for name, each in stored.items()]
    out = host.empty("out", (m, n), dtype)
    host.launch(kernel, *tensors, out)
    log = engine.close_log()
    assert engine.initial_memory is not None
    a, b, row, column = (each.astype(np.float64) for each in values.values())
    expected = reference(a @ b, row, column)
    # f32 sums of k products, times a factor, plus a bias; then the result's own rounding.
    factor = 1 + np.abs(column)
    sums = (np.sqrt(k) * 2.0**-24 * (np.abs(a) @ np.abs(b)) + 2.0**-22 * (1 + np.abs(a @ b) + np.abs(row))) * factor
    info = dtype.info
    bound = 2 * info.unit_roundoff * np.abs(expected) + sums + info.smallest_subnormal
    return Ran(log, engine.initial_memory, out, expected, bound)


def check(ran: Ran, mode: str) -> None:
    assert (np.abs(ran.result(mode) - ran.expected) <= ran.bound).all()


@st.composite
def ways(draw: st.DrawFn) -> Ways:
    found = Ways(*(draw(st.booleans()) for _ in range(6)), draw(st.sampled_from(sorted(EPILOGUES))))
    found = found._replace(loop_order=draw(st.sampled_from([*LoopOrder])))
    if found.b_stream or found.loop_order == LoopOrder.WEIGHT_STATIONARY:
        found = found._replace(b_pinned=False)
    if found.loop_order == LoopOrder.WEIGHT_STATIONARY:
        return found._replace(b_stream=False)
    return found._replace(a_pinned=False) if found.loop_order == LoopOrder.INPUT_STATIONARY else found


side = st.integers(1, 40)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(st.tuples(side, side, side), st.tuples(*[st.integers(6, 40)] * 3), st.sampled_from(DTYPES), ways())
def test_every_way_to_ask_computes_the_product(
    shape: tuple[int, int, int], tile: tuple[int, int, int], dtype: DType, ways: Ways
) -> None:
    ran = run(shape, tile, dtype, ways)
    check(ran, "tile")
    check(ran, "fused")


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize("b_stream", [False, True])
def test_columns_of_tiles_come_first_where_the_kernel_says_so(b_stream: bool, mode: str) -> None:
    ways = Ways(b_stream=b_stream, epilogue="both", loop_order="nmk")
    check(run((100, 90, 150), (32, 48, 64), DType.F32, ways), mode)


@pytest.mark.parametrize(
    ("order", "needs"),
    [
        ("kmn", "mnk, nmk, weight_stationary or input_stationary; keep K innermost"),
        (3, "one of 'mnk', 'nmk', 'weight_stationary', 'input_stationary'"),
    ],
)
def test_other_loop_orders_are_refused(order: Any, needs: str) -> None:
    with pytest.raises(KbError, match=f"loop_order={order!r}, needs {needs}"):
        run((8, 8, 8), (4, 4, 4), DType.F32, Ways(loop_order=order))


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_an_epilogue_of_factors_by_row_computes_what_it_says(epilogue: str, dtype: DType, mode: str) -> None:
    check(run((40, 52, 70), (16, 24, 32), dtype, Ways(epilogue=epilogue)), mode)


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize("b_stream", [False, True])
def test_a_dequant_by_group_scales_the_products_of_each_group(mode: str, b_stream: bool) -> None:
    m, n, k, group = 20, 30, 70, 32
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-8, 8, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    factors = rng.standard_normal((3, n), dtype=np.float32)

    def kernel(tl: Any, a: Any, b: Any, factors: Any, out: Any) -> None:
        epilogue = (tl.dequant(factors, scope="k_tile", group=group),)
        tl.composite("gemm", a, b, out=out, epilogue=epilogue, b_stream=b_stream)

    engine = Engine(ONE_PE, MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    tensors = [host.tensor("a", a, "i8"), host.tensor("b", b, "i8"), host.tensor("f", factors, "f32")]
    out = host.empty("out", (m, n), "f32")
    host.launch(kernel, *tensors, out)
    log, memory = engine.close_log(), engine.initial_memory
    assert memory is not None
    got = read_tensor(Executor(log, memory, mode).run(), out)  # type: ignore[arg-type]
    expected = sum(
        a[:, at : at + group].astype(np.float64) @ b[at : at + group] * factors[at // group]
        for at in range(0, k, group)
    )
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize("transposed", [(True, False), (False, True), (True, True)])
def test_a_dot_of_transposed_values_is_a_product(transposed: tuple[bool, bool], mode: str) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((20, 30)).astype(np.float16), rng.standard_normal((30, 12)).astype(np.float16)

    def kernel(tl: Any, a: Any, b: Any, out: Any) -> None:
        x, y = tl.load(a), tl.load(b)
        tl.store(out, tl.dot(x.T if transposed[0] else x, tl.trans(y) if transposed[1] else y))

    engine = Engine(ONE_PE, MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    stored = [np.ascontiguousarray(x.T) if turn else x for x, turn in zip((a, b), transposed, strict=True)]
    tensors = [host.tensor(name, each, "f16") for name, each in zip("ab", stored, strict=True)]
    out = host.empty("out", (20, 12), "f32")
    host.launch(kernel, *tensors, out)
    log, memory = engine.close_log(), engine.initial_memory
    assert memory is not None
    got = read_tensor(Executor(log, memory, mode).run(), out)  # type: ignore[arg-type]
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("b_stream", [False, True])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_fused_mode_makes_one_product_however_factors_are_stored(transposed: tuple[bool, bool], b_stream: bool) -> None:
    calls = []

    class Counting(NumpyBackend):
        def matmul(self, a: Array, b: Array) -> Array:
            calls.append((a.shape, b.shape))
            return super().matmul(a, b)

    ran = run((70, 90, 110), (16, 24, 32), DType.F16, Ways(*transposed, b_stream))
    memory = Executor(ran.log, ran.memory, backend=Counting()).run()
    assert (np.abs(read_tensor(memory, ran.out).astype(np.float64) - ran.expected) <= ran.bound).all()
    assert calls == [((70, 110), (110, 90))]


def test_records_say_how_factors_are_stored() -> None:
    ran = run((8, 8, 16), (8, 8, 8), DType.F16, Ways(transpose_a=True, b_stream=True))
    records = list(ran.log.records())
    assert [each.params for each in records if each.name == "gemm"] == [
        '{"transpose_a":true}',
        '{"accumulate":true,"transpose_a":true}',
    ]
    spaces = [[operand.space.value for operand in each.operands] for each in records if each.name == "dma_read"]
    assert spaces == [["hbm", "tcm"], ["hbm", "reg"]] * 2


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize(
    "ways",
    [
        Ways(True, True, True, epilogue="both"),
        Ways(epilogue="both", loop_order="weight_stationary"),
        Ways(b_stream=True, loop_order="input_stationary"),
    ],
)
def test_every_record_of_a_product_matters(ways: Ways, mode: str) -> None:
    ran = run((12, 10, 14), (8, 8, 8), DType.F32, ways)
    assert (np.abs(ran.result(mode, fuse_from=4) - ran.expected) <= ran.bound).all()
    unnoticed = [op_id for op_id in ran.log.ops["op_id"].tolist() if not notices(ran, mode, without(ran.log, op_id))]
    assert unnoticed == []


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_transpose_left_out_of_the_log_is_noticed(mode: str) -> None:
    """Square tiles, so that every shape still fits."""
    ran = run((16, 16, 16), (8, 8, 8), DType.F32, Ways(transpose_a=True))
    strings = [text.replace('"transpose_a":true', '"transpose_a":false') for text in ran.log.strings]
    assert strings != ran.log.strings
    assert notices(ran, mode, OpLog(ran.log.ops, ran.log.operands, strings))


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize("order", ["weight_stationary", "input_stationary"])
def test_bytes_of_a_panel_that_the_first_reader_releases_are_missed(order: str, mode: str) -> None:
    ran = run((24, 24, 16), (8, 8, 8), DType.F32, Ways(loop_order=order))
    assert (np.abs(ran.result(mode) - ran.expected) <= ran.bound).all()
    operands = ran.log.operands.copy()
    fetches = ran.log.ops["op_id"][[ran.log.strings[name] == "fetch" for name in ran.log.ops["name"]]]
    read = np.isin(operands["op_id"], fetches) & (operands["role"] == Role.SRC)
    kept = np.flatnonzero(read & (operands["release"] == 0))
    assert len(kept) == 2 * 3 * 2 * 3 - 3 * 2 * 3 - 3 * 2  # of 2 sources of 18 fetches; 18 of tiles and 6 of panels end
    operands["release"][kept[0]] = True
    with pytest.raises(KbError):
        ran.result(mode, OpLog(ran.log.ops, operands, ran.log.strings), fuse_from=4)


def without(log: OpLog, op_id: int) -> OpLog:
    keep = [table["op_id"] != op_id for table in (log.ops, log.operands)]
    return OpLog(log.ops[keep[0]], log.operands[keep[1]], log.strings, is_complete=False)


def notices(ran: Ran, mode: str, log: OpLog) -> bool:
    """Whether *log* gives an error or a wrong result."""
    try:
        return not (np.abs(ran.result(mode, log, fuse_from=4) - ran.expected) <= ran.bound).all()
    except KbError:
        return True
