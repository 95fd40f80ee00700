"""The length of the sums of a log, and the default tolerance that follows from it."""

import numpy as np
import pytest
from dataexec_gemm_log import GemmProblem

from kb_dataexec import Executor, OpLog, compare, default_tolerance
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE
from kb_dataexec.verify import sum_length, sum_lengths
from kb_messages import DType, MemorySpace, Rectangle, Role

NAMES = ("owner", "offset", "rows", "row_nbytes", "stride")


@pytest.mark.parametrize(("shape", "tile"), [((8, 8, 8), (4, 4, 4)), ((12, 10, 17), (8, 8, 8)), ((4, 4, 4), (4, 4, 4))])
def test_a_sum_is_as_long_as_the_product_is_deep(shape, tile):
    assert sum_length(GemmProblem(*shape, tile).log()) == shape[2]


def test_a_log_without_products_has_sums_of_one_term():
    assert sum_length(OpLog(np.empty(0, OPS_DTYPE), np.empty(0, OPERAND_DTYPE), [])) == 1


def test_the_default_tolerance_passes_a_product_of_f32_of_any_depth():
    rng = np.random.default_rng(0)
    for k in (64, 1024, 4096):
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, k), (k, 64)))
        expected = a.astype(np.float64) @ b
        got = np.zeros((64, 64), np.float32)
        for at in range(k):  # one term after the other, the worst order
            got += a[:, at : at + 1] * b[at]
        assert compare("c", got, expected, default_tolerance(expected, DType.F32, k)).ok
        wrong = got.copy()
        wrong[3, 5] += 0.02 * np.sqrt(k)
        assert compare("c", wrong, expected, default_tolerance(expected, DType.F32, k)).n_wrong == 1


def test_a_log_runs_within_its_own_default():
    problem = GemmProblem(12, 10, 16, (8, 8, 8))
    after = Executor(problem.log(), problem.memory()).run()
    reference, _ = problem.reference()
    assert compare("c", problem.result(after), reference, default_tolerance(reference, DType.F16, 16)).ok


def test_an_output_has_the_sums_that_lead_to_it():
    """The product of 12 x 10 x 17, its first row alone, its input, and bytes that nothing writes."""
    problem = GemmProblem(12, 10, 17, (8, 8, 8))
    log = problem.log()
    written = log.operands[log.operands["role"] == Role.DST]
    stored = written[written["space"] == MemorySpace.HBM.code]
    whole = [Rectangle.of_memory(*(int(row[name]) for name in NAMES)) for row in stored]
    first = [Rectangle.of_memory(int(stored[0]["owner"]), int(stored[0]["offset"]), 1, 2, 2)]
    read = log.operands[(log.operands["role"] == Role.SRC) & (log.operands["space"] == MemorySpace.HBM.code)][0]
    source = [Rectangle.of_memory(*(int(read[name]) for name in NAMES))]
    nowhere = [Rectangle.of_memory(int(stored[0]["owner"]), 1 << 30, 1, 2, 2)]
    assert sum_lengths(log, [whole, first, source, nowhere, []]) == [17, 17, 1, 1, 1]


def test_a_log_without_sums_is_not_searched():
    empty = OpLog(np.empty(0, OPS_DTYPE), np.empty(0, OPERAND_DTYPE), [])
    assert sum_lengths(empty, [[], []]) == [1, 1]
