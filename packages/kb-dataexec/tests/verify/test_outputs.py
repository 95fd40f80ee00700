from typing import NamedTuple

import numpy as np
import pytest
from dataexec_gemm_log import HBM, GemmProblem

from kb_dataexec.execute.executor import Executor
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.verify.outputs import compare_output, read_output
from kb_messages import DType

PROBLEM = GemmProblem(8, 8, 16, (8, 8, 8))


class Stored(NamedTuple):
    """A matrix of 8 x 8 f16 in one piece."""

    offset: int

    def read(self, memory):
        return memory.read(HBM, self.offset, 8, 16, 16, DType.F16)

    def byte_of(self, index):
        return HBM, self.offset + 16 * index[0] + 2 * index[1]


@pytest.fixture(scope="module")
def log():
    return PROBLEM.log()


@pytest.fixture(scope="module")
def memory(log) -> MemoryStore:
    return Executor(log, PROBLEM.memory()).run()


def test_a_right_output_has_no_origin(log, memory):
    output, (reference, allowed) = Stored(PROBLEM.at_c), PROBLEM.reference()
    verdict = compare_output(log, "c", output, read_output(log, memory, output), reference, allowed)
    assert (verdict.comparison.ok, verdict.origin) == (True, None)


def test_a_wrong_output_is_blamed_on_the_op_that_wrote_its_worst_element(log, memory):
    output, (reference, allowed) = Stored(PROBLEM.at_c), PROBLEM.reference()
    wrong = reference + np.eye(8)[3] * 2
    verdict = compare_output(log, "c", output, read_output(log, memory, output), wrong, allowed)
    assert not verdict.comparison.ok
    assert [verdict.origin.writer.name, verdict.origin.maker.name] == ["dma_write", "gemm"]


def test_an_output_that_nobody_wrote_says_so(log, memory):
    with pytest.raises(StoreError, match=r"never written, needs initialised bytes; no op of the log writes it$"):
        read_output(log, memory, Stored(PROBLEM.at_c + 4096))
