import re

import numpy as np
import pytest
from dataexec_gemm_log import HBM, REG, TCM, GemmProblem, LogBuilder
from dataexec_math_log import EpilogueProblem, SoftmaxProblem

from kb_dataexec.execute.executor import Executor
from kb_dataexec.execute.fused import run as fused
from kb_dataexec.execute.fused import window
from kb_dataexec.execute.fused.products import grid_product, grids
from kb_dataexec.log.tables import OpLog
from kb_dataexec.memory.store import StoreError
from kb_dataexec.verify.compare import compare
from kb_messages import DType

DTYPES = [DType.F16, DType.BF16, DType.F8E4M3, DType.F32, DType.I8]


@pytest.fixture(params=["tile", "fused"])
def mode(request):
    return request.param


def execute(log, memory, mode="fused"):
    return Executor(log, memory, mode, fuse_from=2).run()


def verify(problem, store):
    return compare("c", problem.result(store), *problem.reference())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "tile"),
    [((32, 32, 32), (16, 16, 8)), ((37, 29, 23), (16, 8, 5)), ((1, 40, 7), (4, 16, 4)), ((40, 1, 7), (16, 4, 4))],
)
def test_a_tiled_gemm_is_its_reference(mode, dtype, shape, tile):
    problem = GemmProblem(*shape, tile, dtype)
    outcome = verify(problem, execute(problem.log(), problem.memory(), mode))
    assert outcome.ok, str(outcome)


def test_a_gemm_with_a_transposed_factor_is_its_reference(mode):
    problem = GemmProblem(21, 18, 13, (8, 8, 4), transpose_b=True)
    outcome = verify(problem, execute(problem.log(), problem.memory(), mode))
    assert outcome.ok, str(outcome)


def test_a_long_accumulation_is_within_its_bound(mode):
    problem = GemmProblem(16, 16, 14336, (16, 16, 128))
    outcome = verify(problem, execute(problem.log(), problem.memory(), mode))
    assert outcome.ok, str(outcome)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
@pytest.mark.parametrize(
    ("shape", "tile"), [((32, 32, 32), (16, 16, 8)), ((37, 29, 23), (16, 8, 5)), ((1, 40, 7), (4, 16, 4))]
)
def test_an_epilogue_is_its_reference(mode, dtype, shape, tile):
    problem = EpilogueProblem(*shape, tile, dtype)
    outcome = verify(problem, execute(problem.log(), problem.memory(), mode))
    assert outcome.ok, str(outcome)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
def test_a_softmax_over_rows_is_its_reference(mode, dtype):
    problem = SoftmaxProblem(11, 37, 4, dtype)
    outcome = verify(problem, execute(problem.log(), problem.memory(), mode))
    assert outcome.ok, str(outcome)


def test_one_tile_buffer_is_enough(mode):
    problem = GemmProblem(16, 16, 16, (8, 8, 8), slots=1)
    assert verify(problem, execute(problem.log(), problem.memory(), mode)).ok


def test_the_initial_memory_is_left_alone(mode):
    problem = GemmProblem(8, 8, 8, (4, 4, 4))
    memory = problem.memory()
    held = memory.nbytes_held
    execute(problem.log(), memory, mode)
    assert memory.nbytes_held == held
    with pytest.raises(StoreError, match="never written"):
        problem.result(memory)


def test_tile_buffers_hold_nothing_afterwards(mode):
    problem = GemmProblem(16, 16, 16, (8, 8, 8))
    out = execute(problem.log(), problem.memory(), mode)
    for owner in (TCM, REG):
        assert not out._regions[owner].extents.items


def test_progress_ends_with_all_records(mode):
    problem, calls = GemmProblem(16, 16, 16, (4, 4, 4)), []
    Executor(problem.log(), problem.memory(), mode).run(lambda done, total: calls.append((done, total)))
    assert calls[-1] == (problem.log().n_ops,) * 2


def test_an_empty_log_changes_nothing(mode):
    problem = GemmProblem(4, 4, 4, (4, 4, 4))
    log = problem.log()
    out = execute(OpLog(log.ops[:0], log.operands[:0], []), problem.memory(), mode)
    assert out.regions == problem.memory().regions


def chained(swap_order=False):
    """C = A @ B, then E = C @ D in a second command, whose records may stand first in the log."""
    first, second = GemmProblem(24, 16, 20, (8, 8, 8)), GemmProblem(24, 12, 16, (8, 4, 8), seed=1, command_seq=1)
    second.at_a, second.at_b = first.at_c, first.at_c + 4096
    second.at_c = second.at_b + 4096
    builder = LogBuilder()
    for problem in (second, first) if swap_order else (first, second):
        problem.add_to(builder)
    memory = first.memory()
    memory.write_tensor(HBM, second.at_b, second.b)
    return first, second, builder.log(), memory


@pytest.mark.parametrize("swap_order", [False, True])
def test_a_command_reads_what_an_earlier_one_wrote(mode, swap_order):
    first, second, log, memory = chained(swap_order)
    out = execute(log, memory, mode)
    assert verify(first, out).ok
    second.a = np.array(first.result(out))
    assert verify(second, out).ok


def test_a_command_that_reads_what_a_later_one_writes_is_an_error(mode):
    first, second, log, memory = chained()
    log.ops["command_seq"] = 1 - log.ops["command_seq"]
    at_a = HBM << 38 | second.at_a
    text = (
        f"op {54} (dma_read, pe0, kernel.py:3): hbm + {second.at_a:#x} (address {at_a:#x}): got a read of 8 x 8 f16 "
        f"whose bytes from {second.at_a:#x} on were never written, needs initialised bytes; "
        "only later written, by op 13 (dma_write, pe0, kernel.py:3)"
    ).replace("op 54", f"op {first.log().n_ops}")
    with pytest.raises(StoreError, match=f"^{re.escape(text)}$"):
        execute(log, memory, mode)


def test_an_output_over_its_own_factor_takes_the_old_values(mode):
    problem = GemmProblem(8, 8, 8, (8, 8, 8))
    memory = problem.memory()
    problem.at_c = problem.at_a
    out = execute(problem.log(), memory, mode)
    assert verify(problem, out).ok


def test_an_output_tile_over_a_factor_that_is_read_later_changes_it(mode):
    problem = GemmProblem(16, 8, 8, (8, 8, 8), DType.F32)
    memory = problem.memory()
    problem.at_c = problem.at_a + 8 * 8 * 4
    out = execute(problem.log(), memory, mode)
    a, b = problem.a.astype(np.float64), problem.b.astype(np.float64)
    assert problem.result(out)[:8] == pytest.approx(a[:8] @ b, rel=1e-5, abs=1e-5)
    assert problem.result(out)[8:] == pytest.approx(a[:8] @ b @ b, rel=1e-5, abs=1e-5)


def test_fused_mode_makes_one_product_of_a_regular_gemm(monkeypatch):
    calls = []
    monkeypatch.setattr(grid_product, "product", lambda a, b: calls.append((a.shape, b.shape)) or a @ b)
    problem = GemmProblem(37, 29, 23, (16, 8, 5))
    Executor(problem.log(), problem.memory()).run()
    assert calls == [((37, 23), (23, 29))]


def test_fused_mode_makes_one_product_of_a_gemm_with_an_epilogue(monkeypatch):
    calls = []
    monkeypatch.setattr(grid_product, "product", lambda a, b: calls.append((a.shape, b.shape)) or a @ b)
    problem = EpilogueProblem(37, 29, 23, (16, 8, 5))
    assert verify(problem, Executor(problem.log(), problem.memory()).run()).ok
    assert calls == [((37, 23), (23, 29))]


def test_products_that_wait_for_their_math_are_bounded(monkeypatch):
    calls = []
    monkeypatch.setattr(grid_product, "product", lambda a, b: calls.append(a.shape[0] * b.shape[1]) or a @ b)
    monkeypatch.setattr(window, "_HELD_NBYTES", 4 * 16 * 24)
    problem = EpilogueProblem(37, 29, 23, (16, 8, 5))
    assert verify(problem, Executor(problem.log(), problem.memory(), fuse_from=12).run()).ok
    assert len(calls) > 1
    assert max(calls) <= 16 * 24


def test_large_panels_are_computed_in_parts(monkeypatch):
    monkeypatch.setattr(grids, "_PANEL_NBYTES", 4 * 23 * 16)
    problem = GemmProblem(37, 29, 23, (16, 8, 5))
    assert verify(problem, Executor(problem.log(), problem.memory()).run()).ok


def test_windows_that_cut_an_accumulation_continue_it(monkeypatch):
    monkeypatch.setattr(fused, "_LARGEST_WINDOW", 70)
    monkeypatch.setattr(fused, "_WINDOW", 10)
    problem = GemmProblem(20, 20, 40, (8, 8, 8), DType.F32)
    assert verify(problem, execute(problem.log(), problem.memory())).ok


def test_an_unknown_mode_is_an_error():
    problem = GemmProblem(4, 4, 4, (4, 4, 4))
    with pytest.raises(ValueError, match=r"^mode: got 'fast', needs 'fused' or 'tile'$"):
        Executor(problem.log(), problem.memory(), "fast")
