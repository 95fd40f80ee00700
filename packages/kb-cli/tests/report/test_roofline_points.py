"""Points of the roofline, for a product that is small enough to count by hand."""

import numpy as np
import pytest

from kb_cli.benchmark.bundled import find
from kb_cli.report.data.roofline_launches import launch_points
from kb_cli.report.data.roofline_points import SharedBytes, in_flight_ps, line_points, product_dtypes, union_ps
from kb_dataexec import MemoryLogWriter, OpLog
from kb_dataexec.log import OPERAND_DTYPE, OPS_DTYPE
from kb_engine import Engine, Host
from kb_messages import DType, TileShape
from kb_topology import load_topology

M, N, K = 40, 24, 72
TILE = TileShape(16, 16, 32)
"""3 x 2 x 3 tiles, the last ones of which are smaller."""


def kernel(tl, a, b, c):
    tl.wait(tl.composite("gemm", a, b, out=c, tile=TILE))
    value = tl.load(c)
    tl.store(c, tl.exp(value.to("f32")).to("f16"))


def product_alone(tl, a, b, c):
    tl.wait(tl.composite("gemm", a, b, out=c, tile=TILE))


@pytest.fixture(scope="module")
def log() -> OpLog:
    engine = Engine(load_topology(find("topologies", "one_cube")), MemoryLogWriter())
    host = Host(engine)
    a, b = (host.tensor(name, np.ones(shape, np.float16), "f16") for name, shape in (("a", (M, K)), ("b", (K, N))))
    host.launch(kernel, a, b, host.empty("c", (M, N), "f16"), pes=[0])
    found = engine.close_log()
    assert isinstance(found, OpLog)
    return found


def test_a_product_has_two_operations_for_each_multiply_add_with_any_tiles(log: OpLog) -> None:
    """A is read once for each of 2 tiles along N, B once for each of 3 along M, and C is written once: f16 each."""
    product = line_points(log)[0]
    assert product.flops == 2 * M * N * K
    read = 2 * (2 * M * K + 3 * K * N)
    assert product.nbytes == {"hbm": read + 2 * M * N, "reg": read + 2 * M * N}


def test_a_function_has_an_operation_for_each_element(log: OpLog) -> None:
    """The last line is one vector program: two casts and an exp of M x N elements, fetched and stored once as f16."""
    rest = line_points(log)[1:]
    assert sum(point.flops for point in rest) == 3 * M * N
    assert sum(point.nbytes.get("reg", 0) for point in rest) == (2 + 2) * M * N


def test_the_one_line_that_asks_for_bytes_has_those_that_the_memory_moved(log: OpLog) -> None:
    """Three lines ask for bytes of HBM, so none has bytes there; of the TCM ports, each has its own."""
    shared = {"hbm": SharedBytes("hbm cache", 1000)}
    assert [set(point.nbytes) for point in line_points(log, shared)] == [{"reg"}] * len(line_points(log))
    engine = Engine(load_topology(find("topologies", "one_cube")), MemoryLogWriter())
    host = Host(engine)
    a, b = (host.tensor(name, np.ones(shape, np.float16), "f16") for name, shape in (("a", (M, K)), ("b", (K, N))))
    host.launch(product_alone, a, b, host.empty("c", (M, N), "f16"), pes=[0])
    alone = engine.close_log()
    assert isinstance(alone, OpLog)
    (point,) = line_points(alone, shared)
    assert point.nbytes == {"hbm cache": 1000, "reg": line_points(alone)[0].nbytes["reg"]}


def test_the_time_of_a_line_is_that_of_its_commands(log: OpLog) -> None:
    commands = log.table("commands")
    product = line_points(log)[0]
    assert product.ps == int(commands["t_done_ps"][0] - commands["t_submitted_ps"][0])
    assert in_flight_ps(log)[product.line] == product.ps


def test_without_commands_the_time_comes_from_the_records(log: OpLog) -> None:
    bare = OpLog(log.ops, log.operands, log.strings)
    line = line_points(log)[0].line
    mine = log.ops[log.ops["line"] == log.strings.index(line)]
    assert in_flight_ps(bare)[line] == int(mine["t_out_ps"].max() - mine["t_ready_ps"].min())


def test_time_in_several_spans_counts_once() -> None:
    """0 to 10, with 2 to 3 within and 8 to 12 beyond; then 20 to 21."""
    assert union_ps(np.array([0, 2, 8, 20]), np.array([10, 3, 12, 21])) == 13
    assert union_ps(np.array([], np.int64), np.array([], np.int64)) == 0


def test_a_log_without_records_has_no_points() -> None:
    assert line_points(OpLog(np.zeros(0, OPS_DTYPE), np.zeros(0, OPERAND_DTYPE), [])) == []


def test_each_launch_of_two_has_a_point_with_its_own_work() -> None:
    """The second launch has half of the rows, so half of the operations; both were read as f16."""
    engine = Engine(load_topology(find("topologies", "one_cube")), MemoryLogWriter())
    host = Host(engine)
    b = host.tensor("b", np.ones((K, N), np.float16), "f16")
    for name, rows in (("a", M), ("h", M // 2)):
        a = host.tensor(name, np.ones((rows, K), np.float16), "f16")
        host.launch(product_alone, a, b, host.empty(f"{name}c", (rows, N), "f16"), pes=[1])
    two = engine.close_log()
    assert isinstance(two, OpLog)
    first, second = launch_points(two, (), {})
    assert [(each.name, each.line) for each in (first, second)] == [("launch 0", ""), ("launch 1", "")]
    assert (first.flops, second.flops) == (2 * M * N * K, M * N * K)
    (line,) = line_points(two)
    assert {space: first.nbytes[space] + second.nbytes[space] for space in line.nbytes} == line.nbytes
    kernels = two.table("kernels")
    assert [first.ps, second.ps] == (kernels["t_end_ps"] - kernels["t_start_ps"]).tolist()
    assert product_dtypes(two) == {DType.F16}


def test_one_launch_has_no_point_beside_that_of_the_run(log: OpLog) -> None:
    assert launch_points(log, (), {}) == []
