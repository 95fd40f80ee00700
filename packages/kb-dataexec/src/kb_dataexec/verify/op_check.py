"""Debug mode: executes one op at a time, compares each op with float64, and stops at the first wrong op.

Every op is recomputed in float64 (integers: exactly) from the values that it read. The result may differ by the
rounding of that one op (`op_reference`). Errors therefore do not add up, and the op that is reported is
wrong by itself: its backend, its cast or its function. A log that asks for the wrong thing, such as a wrong address,
passes debug mode. Its outputs are wrong then, and `provenance` names the ops that wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from msgspec import Struct

from kb_dataexec.analysis.provenance import explained
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.backends import Backend, load_backend, using
from kb_dataexec.backends.blas_threads import single_threaded
from kb_dataexec.execute.executor import prepared, schedules
from kb_dataexec.log.rows import Op, OperandRow
from kb_dataexec.log.tables import LogParts
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.ops import gemm, math, memory
from kb_dataexec.ops.one_by_one import RUN
from kb_dataexec.ops.slot_releases import RELEASE_KIND
from kb_dataexec.verify.compare import Comparison, compare_within
from kb_dataexec.verify.op_reference import OpReference, of_gemm, of_math, of_move
from kb_messages import OpKind, Role


class WrongOp(Struct, frozen=True, kw_only=True):
    """The first op whose result differs from the float64 result, with the comparison of its output."""

    op_id: int
    where: str
    comparison: Comparison

    def __str__(self) -> str:
        return f"{self.where}: {self.comparison}"


class Debugged(Struct, frozen=True, kw_only=True):
    """The outcome of debug mode: the memory after the last op that ran, the number of ops that ran, and the wrong
    op."""

    memory: MemoryStore
    n_ops: int
    wrong: WrongOp | None


def debug(
    log: LogParts,
    initial: MemoryStore,
    backend: Backend | str = "numpy",
    progress: Callable[[int, int], None] | None = None,
) -> Debugged:
    """Executes *log* on a snapshot of *initial*, op by op, until one op is wrong.

    *progress* is called with (ops done, ops in the log) after each right op.

    Raises LogError for a log that cannot be executed, and StoreError for a read of bytes that are not initialised and
    for an address that is in no memory.
    """
    store, total = prepared(log, initial), log.n_ops
    found: WrongOp | None = None
    done = 0
    try:
        with using(load_backend(backend) if isinstance(backend, str) else backend), single_threaded():
            for op in _ops(log):
                if op.kind == RELEASE_KIND:
                    RUN[op.kind](op, store)
                    continue
                found = _step(op, store)
                done += 1
                if found is not None:
                    break
                if progress is not None:
                    progress(done, total)
    except StoreError as error:
        raise explained(log, error) from error
    store.remove_region(0)
    return Debugged(memory=store, n_ops=done, wrong=found)


def _ops(log: LogParts) -> Iterator[Op]:
    for schedule in schedules(log):
        yield from schedule.iterate(0, len(schedule.ops))


def _step(op: Op, store: MemoryStore) -> WrongOp | None:
    """Runs *op*. Returns a WrongOp for its first wrong output, or None."""
    with np.errstate(all="ignore"):
        expected = _expected(op, store)
        RUN[op.kind](op, store)
        for target, (value, allowed) in expected:
            got = store.read(*target.bytes_of, target.dtype)
            comparison = compare_within(f"{Role(target.role).name} {target}", got, value, allowed)
            if not comparison.ok:
                return WrongOp(op_id=op.op_id, where=op.where, comparison=comparison)
    return None


def _expected(op: Op, store: MemoryStore) -> list[tuple[OperandRow, OpReference]]:
    """Every operand that *op* will write, with its reference."""
    if op.kind == OpKind.MEMORY:
        pairs = memory.moves(op)
        values = _values(op, store, [source for source, _ in pairs])
        return [(target, of_move(value, target.dtype)) for (_, target), value in zip(pairs, values, strict=True)]
    if op.kind == OpKind.GEMM:
        found = gemm.decode(op)
        reads = [row for row in (found.a, found.b, found.accumulator) if row is not None]
        return [(found.out, of_gemm(found, _values(op, store, reads)))]
    function = math.decode(op)
    return [(function.out, of_math(function, _values(op, store, function.inputs)))]


def _values(op: Op, store: MemoryStore, operands: list[OperandRow]) -> list[Array]:
    """Copies of the operands' values. Nothing is released."""
    return [np.array(value) for value in op.read(store, [row._replace(release=0) for row in operands])]
