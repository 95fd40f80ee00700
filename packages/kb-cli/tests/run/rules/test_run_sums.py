"""Sums that rules share are the same in whatever parts a log is read, and so are the remedies."""

from itertools import pairwise

import msgspec
import numpy as np

import kernbench as kb
from kb_cli.run.rules.kernel_rules import RuleSearch
from kb_dataexec import OpLog


def run(*arguments, **options):
    return kb.run(*arguments, compute=False, **options)


def walk(tl, x, y, rows):
    for block in range(tl.program_id(), x.shape[0] // rows, tl.num_programs()):
        part = slice(block * rows, (block + 1) * rows)
        tl.store(y[part, :], tl.load(x[part, :]) * 2)


def pieces(log, n):
    """*log* in *n* parts, with the operands of their ops; the tables come with the first part."""
    edges = np.linspace(0, log.n_ops, n + 1).astype(int)
    for low, high in pairwise(edges):
        ops = log.ops[low:high]
        operands = log.operands[np.isin(log.operands["op_id"], ops["op_id"])]
        tables = log.tables if low == 0 else {name: rows[:0] for name, rows in log.tables.items()}
        yield OpLog(ops, operands, log.strings, log.immediates, tables=tables)


def test_remedies_do_not_depend_on_the_parts_of_a_log(monkeypatch):
    x = np.ones((9 * 64, 512), np.float16)
    x = kb.tensor(x, slices=[0])
    looked = RuleSearch.look

    def look_in_parts(self, log):
        for part in pieces(log, 7):
            looked(self, part)

    def found():
        result = run(walk, x, kb.empty(x.shape, "f16"), 64)
        return msgspec.json.encode(result.result.remedies)

    whole = found()
    monkeypatch.setattr(RuleSearch, "look", look_in_parts)
    assert found() == whole
    assert b"tail" in whole
    assert b"all in one slice" in whole
