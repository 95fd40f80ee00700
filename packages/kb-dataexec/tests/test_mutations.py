"""A log with a record left out, or with a changed address, never gives a right output.

Two addresses of four are changed, by one of the distances, which take turns; `nox -s mutants` changes each by all.
"""

import os

import numpy as np
import pytest
from dataexec_gemm_log import GemmProblem
from dataexec_math_log import EpilogueProblem, SoftmaxProblem

from kb_dataexec.analysis.dependencies import backward_slice
from kb_dataexec.execute.executor import Executor
from kb_dataexec.log.tables import OpLog
from kb_dataexec.verify.compare import compare
from kb_messages import DType, KbError, Rectangle

DELTAS = (-64, -2, 1, 4, 32, 8192)


class MutatedLog:
    def __init__(self, problem):
        self.problem, self.log, self.memory = problem, problem.log(), problem.memory()
        self.expected, self.bound = problem.reference()

    def outcome(self, log, mode):
        """The output as f64, or the text of the error."""
        try:
            return np.array(self.problem.result(Executor(log, self.memory, mode, fuse_from=12).run())).astype(
                np.float64
            )
        except KbError as error:
            return f"{type(error).__name__}: {error}"

    def is_unnoticed(self, log):
        """Whether both modes, which must agree, give the right output."""
        tile, fuse = (self.outcome(log, mode) for mode in ("tile", "fused"))
        if isinstance(tile, str) or isinstance(fuse, str):
            assert tile == fuse
            return False
        assert compare("fused against tile", fuse, tile, 4 * self.bound).ok
        return compare("c", tile, self.expected, self.bound).ok

    def without(self, op_id):
        """The log without an op, as if it was cut off: a closed one is refused before anything is executed."""
        keep = [table["op_id"] != op_id for table in (self.log.ops, self.log.operands)]
        return OpLog(self.log.ops[keep[0]], self.log.operands[keep[1]], self.log.strings, is_complete=False)

    def moved(self, operand, delta):
        operands = self.log.operands.copy()
        operands["offset"][operand] += delta
        return OpLog(self.log.ops, operands, self.log.strings)


CASES = {
    "gemm-f16": GemmProblem(13, 11, 10, (8, 8, 4), DType.F16),
    "gemm-f8e4m3-f32": GemmProblem(9, 8, 12, (8, 4, 4), DType.F8E4M3, DType.F32),
    "gemm-i8": GemmProblem(8, 9, 5, (4, 8, 4), DType.I8),
    "gemm-bf16": GemmProblem(7, 5, 6, (4, 4, 4), DType.BF16),
    "gemm-f32-f16": GemmProblem(6, 5, 6, (4, 4, 4), DType.F32, DType.F16),
    "epilogue-f16": EpilogueProblem(7, 6, 6, (4, 4, 4), DType.F16),
    "epilogue-bf16": EpilogueProblem(4, 7, 6, (4, 4, 4), DType.BF16),
    "softmax-f16": SoftmaxProblem(5, 6, 3, DType.F16),
}


def deltas_of(operand):
    """The distances by which the address of *operand* is changed."""
    if "KB_ALL_MUTANTS" in os.environ:
        return DELTAS
    turn = operand // 2
    is_left_out = operand % 2 != turn % 2  # the first operand of a record and its second one are tried in turns
    return [] if is_left_out else [DELTAS[(turn + turn // len(DELTAS)) % len(DELTAS)]]


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return MutatedLog(CASES[request.param])


def test_the_log_itself_is_right(case):
    assert case.is_unnoticed(case.log)


def test_every_record_matters(case):
    in_slice = backward_slice(case.log, [Rectangle.of_memory(*case.problem.output)])
    unnoticed = {op_id for op_id in case.log.ops["op_id"].tolist() if case.is_unnoticed(case.without(op_id))}
    assert unnoticed == set(case.log.ops["op_id"].tolist()) - in_slice == set()


def test_every_address_matters(case):
    unnoticed = [
        (operand, delta)
        for operand in range(case.log.n_operands)
        for delta in deltas_of(operand)
        if case.is_unnoticed(case.moved(operand, delta))
    ]
    assert unnoticed == []


def test_every_release_matters_or_is_the_last_use(case):
    """Without its release bit a read gives the same values: the bit exists to make other faults visible."""
    operands = case.log.operands.copy()
    operands["release"] = 0
    assert case.is_unnoticed(OpLog(case.log.ops, operands, case.log.strings))


def test_records_outside_the_slice_of_one_tile_do_not_change_it(case):
    owner, offset, _, _, stride = case.problem.output
    wanted = Rectangle.of_memory(owner, offset, 1, case.problem.out.nbytes, stride)
    in_slice = backward_slice(case.log, [wanted])
    outside = set(case.log.ops["op_id"].tolist()) - in_slice
    assert outside
    keep = [np.isin(table["op_id"], list(in_slice)) for table in (case.log.ops, case.log.operands)]
    log = OpLog(case.log.ops[keep[0]], case.log.operands[keep[1]], case.log.strings, is_complete=False)
    for mode in ("tile", "fused"):
        got = Executor(log, case.memory, mode, fuse_from=12).run().read(*wanted.in_memory, case.problem.out)
        assert abs(float(got[0, 0]) - case.expected[0, 0]) <= case.bound[0, 0]
