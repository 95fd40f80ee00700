"""Rules find the same in a log that they see in parts as in a whole one."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import kernbench as kb
from kb_cli.run.rules.work.command_times import CommandTimes
from kb_cli.run.rules.work.op_sums import OpSums
from kb_cli.run.rules.work.pieces import Pieces
from kb_cli.run.rules.work.repeated_reads import RepeatedReads
from kb_dataexec import OpLog, read_log
from kb_engine import Engine, Host
from kb_messages import Role


def kernel(tl, x, w, y, block: int) -> None:
    for start in range(tl.program_id() * block, x.shape[0], tl.num_programs() * block):
        rows = slice(start, start + block)
        product = tl.dot(tl.load(x[rows, :]), tl.load(w))
        tl.store(y[rows, :], product - tl.max(product, axis=1))


def parts_of(log: OpLog, n_parts: int) -> Iterator[OpLog]:
    """*log* in parts, each with the operands of its ops, and with a part of each auxiliary table."""
    for number, ops in enumerate(np.array_split(log.ops, n_parts)):
        tables = {name: np.array_split(table, n_parts)[number] for name, table in log.tables.items()}
        yield OpLog(ops, log.operands[np.isin(log.operands["op_id"], ops["op_id"])], log.strings, tables=tables)


def test_a_log_in_parts_has_the_sums_of_the_whole_log(tmp_path: Path) -> None:
    x, w = np.ones((16 * 32, 64), np.float16), np.ones((64, 64), np.float16)
    done = kb.run(kernel, x, w, kb.empty((16 * 32, 64), "f32"), block=16, chip="one_cube", folder=tmp_path)
    log = read_log(done.folder / "log")
    host = Host(Engine(kb.chip("one_cube")))
    seen = [(CommandTimes(host), OpSums("math", (Role.IN, Role.OUT)), RepeatedReads(), Pieces()) for _ in range(2)]
    for looks, n_parts in zip(seen, (1, 7), strict=True):
        for part in parts_of(log, n_parts):
            for each in looks:
                each.look(part)
    (whole, sums, reads, pieces), (in_parts, sums_in_parts, reads_in_parts, pieces_in_parts) = seen
    assert len(whole.commands.pe) > 100
    for one, other in zip(whole.commands, in_parts.commands, strict=True):
        np.testing.assert_array_equal(one, other)
    assert [*sums] == [*sums_in_parts]
    for one, other in zip(reads._reads(), reads_in_parts._reads(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert pieces._sums == pieces_in_parts._sums
    assert pieces._line_ps == pieces_in_parts._line_ps
