"""The terms behind values, rule by rule, in logs of a few records: rows of f32 in registers, 4096 bytes apart."""

import numpy as np
import pytest
from dataexec_gemm_log import HBM, REG, LogBuilder, move

from kb_dataexec.verify import sum_lengths
from kb_messages import DType, OpKind, Rectangle, Role

COLS = 100


class Chain:
    """Values are rows of f32 in registers, by number. Each call is a record of the current command."""

    def __init__(self):
        self._builder, self._command, self._count = LogBuilder(), 0, 0

    def next_command(self):
        self._command += 1

    def _add(self, kind, operands, params=""):
        self._builder.add((self._command, 0, self._count), kind, "op", operands, params)
        self._count += 1

    def load(self, *values):
        """One record that moves rows of memory to registers."""
        pairs = [(move(Role.SRC, *memory(each)), move(Role.DST, *row(each))) for each in values]
        self._add(OpKind.MEMORY, [side for pair in pairs for side in pair])

    def store(self, value):
        self._add(OpKind.MEMORY, [move(Role.SRC, *row(value)), move(Role.DST, *memory(value))])

    def math(self, op, result, *values, **attributes):
        texts = [f'"op":"{op}"', *(f'"{name}":{value}' for name, value in attributes.items())]
        operands = [*(move(Role.IN, *row(each)) for each in values), move(Role.OUT, *row(result))]
        self._add(OpKind.MATH, operands, "{" + ",".join(texts) + "}")

    def dot(self, a, b, acc, accumulate=False):
        """The product of a row of COLS elements, and a column of as many."""
        column = (REG, b * 4096, COLS, 1, 4, DType.F32)
        sides = [move(Role.A, *row(a)), move(Role.B, *column)]
        sums = [move(role, *row(acc)) for role in ((Role.ACC,) if accumulate else ()) + (Role.OUT,)]
        self._add(OpKind.GEMM, [*sides, *sums], '{"accumulate":true}' if accumulate else "{}")

    def terms(self, *values):
        for value in values:
            self.next_command()
            self.store(value)
        at = [[Rectangle.of_memory(*memory(each)[:3], COLS * 4, COLS * 4)] for each in values]
        return sum_lengths(self._builder.log(), at)


def row(number):
    return REG, number * 4096, 1, COLS, COLS * 4, DType.F32


def memory(number):
    return HBM, number * 4096, 1, COLS, COLS * 4, DType.F32


@pytest.fixture
def chain():
    """Rows 0 and 1 come from memory; row 2 is a sum of COLS terms, and row 3 another one."""
    found = Chain()
    found.load(0, 1)
    for result, source in ((2, 0), (3, 1)):
        found.math("sum", result, source, axis=1)
    return found


def test_sums_that_are_added_or_subtracted_have_the_terms_of_both(chain):
    chain.math("sum", 8, 0, axis=1)
    chain.math("add", 4, 2, 3)
    chain.math("sub", 5, 4, 8)
    chain.math("add", 6, 0, 1)
    chain.math("add", 7, 2, 1)
    assert chain.terms(4, 5, 6, 7) == [2 * COLS, 3 * COLS, 1, COLS]


@pytest.mark.parametrize("op", ["mul", "div", "maximum"])
def test_a_product_has_the_terms_of_its_longest_factor(chain, op):
    chain.math("add", 4, 2, 3)
    chain.math(op, 5, 4, 2)
    chain.math(op, 6, 0, 1)
    assert chain.terms(5, 6) == [2 * COLS, 1]


def test_rescaled_sums_do_not_multiply(chain):
    """Flash attention's sums: exp of a difference is one term, which scales what was summed before."""
    chain.math("sub", 4, 2, 3)
    chain.math("exp", 5, 4)
    for _ in range(8):
        chain.next_command()
        chain.math("sum", 3, 1, axis=1)
        chain.math("mul", 2, 2, 5)
        chain.math("add", 2, 2, 3)
    assert chain.terms(2, 5) == [9 * COLS, 2 * COLS]


@pytest.mark.parametrize("op", ["exp", "rsqrt", "sigmoid"])
def test_the_result_of_a_function_is_one_term_and_inherits_those_of_its_argument(chain, op):
    chain.math(op, 4, 2)
    chain.math("add", 5, 4, 4)
    chain.math("sum", 6, 5, axis=1)
    chain.math("add", 7, 4, 3)
    assert chain.terms(4, 5, 6, 7) == [COLS, COLS, COLS, COLS]


def test_fma_adds_its_last_argument_alone(chain):
    chain.math("fma", 4, 2, 3, 2)
    chain.math("fma", 5, 2, 3, 0)
    chain.math("fma", 6, 2, 3, scalars=[0.5])
    chain.math("fma", 7, 2, 3, scalars=[0.5], scalar_at=[1])
    assert chain.terms(4, 5, 6, 7) == [2 * COLS, COLS, COLS, 2 * COLS]


def test_a_matrix_product_counts_its_depth_and_its_accumulator(chain):
    chain.dot(2, 3, 4)
    chain.next_command()
    chain.dot(0, 1, 4, accumulate=True)
    chain.next_command()
    chain.dot(4, 1, 5)
    chain.next_command()
    chain.dot(0, 1, 6)
    assert chain.terms(4, 5, 6) == [2 * COLS, 2 * COLS, COLS]


def test_rows_that_one_record_moves_stay_apart(chain):
    chain.math("add", 4, 2, 3)
    chain.next_command()
    chain.store(4)
    chain.next_command()
    chain.load(4, 1)
    chain.math("add", 5, 1, 2)
    assert chain.terms(4, 5) == [2 * COLS, COLS]


def test_no_value_has_more_terms_than_all_sums_together(chain):
    for _ in range(40):
        chain.math("add", 2, 2, 3)
        chain.math("add", 3, 2, 3)
    assert chain.terms(2, 3) == [2 * COLS, 2 * COLS]


def test_a_sum_of_outer_products_counts_them():
    chain = Chain()
    chain.load(0, 1)
    scalar = (REG, 0, 1, 1, 4, DType.F32)
    for number in range(COLS):
        chain.next_command()
        roles = (Role.ACC, Role.OUT) if number else (Role.OUT,)
        sides = [move(Role.A, *scalar), move(Role.B, *row(1)), *(move(role, *row(2)) for role in roles)]
        chain._add(OpKind.GEMM, sides, '{"accumulate":true}' if number else "{}")
    assert chain.terms(2) == [COLS]


def test_a_flash_softmax_stays_within_its_own_default():
    """In f32, 32 steps of 64 keys, against f64: the error is a part of what 2,048 terms allow."""
    rng = np.random.default_rng(0)
    scores, values = rng.standard_normal((64, 2048)).astype(np.float32), rng.standard_normal((2048, 32), np.float32)
    largest = np.full((64, 1), -np.inf, np.float32)
    total, acc = np.zeros((64, 1), np.float32), np.zeros((64, 32), np.float32)
    for at in range(0, 2048, 64):
        part = scores[:, at : at + 64]
        higher = np.maximum(largest, part.max(1, keepdims=True))
        powers, decay = np.exp(part - higher), np.exp(largest - higher)
        total, acc = total * decay + powers.sum(1, keepdims=True), acc * decay + powers @ values[at : at + 64]
        largest = higher
    exact = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    expected = exact / exact.sum(1, keepdims=True) @ values
    off = np.abs(acc / total - expected).max()
    assert off < 2048 * 2.0**-24 * np.sqrt(np.mean(expected**2))
