"""Mutates op logs, one data record at a time, and counts what verification notices.

    python tests_integration/mutation/mutation_sweep.py            # every mutant of every case: some minutes
    python tests_integration/mutation/mutation_sweep.py --every 50

A mutant is noticed when execution refuses it or an output is wrong. One that is not noticed has to be equivalent: the
expressions of its outputs are the same (`mutation_values.py`), for any data.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from mutation_cases import CASES, Case
from mutation_values import Values

from kb_dataexec import Executor, OpLog, compare
from kb_dataexec.analysis import backward_slice
from kb_messages import KbError

_CHANGES: dict[str, tuple[int, ...]] = {
    "offset": (-64, -2, 2, 4, 64, 4096),
    "rows": (-1, 1),
    "row_nbytes": (-2, 2, 4),
    "stride": (-2, 2, 64),
    "dtype": (1, 2, 5),
    "role": (1, 2, 4, -1),
    "release": (1,),
    "owner": (1, 1 << 10),
    "space": (1,),
}
"""What is added to an operand's fields; `release` is flipped, dtypes wrap around."""
_PLACES: dict[str, tuple[int, ...]] = {
    "command_seq": (-1, 1),
    "tile_id": (-1, 1),
    "stage_index": (-2, 2),
    "kind": (1, 2),
}
_FLIPS = (
    ('"accumulate":true', '"accumulate":false'),
    ('"op":"max"', '"op":"min"'),
    ('"op":"sum"', '"op":"max"'),
    ('"op":"exp"', '"op":"abs"'),
    ('"op":"sub"', '"op":"add"'),
    ('"op":"add"', '"op":"sub"'),
    ('"op":"mul"', '"op":"add"'),
    ('"op":"div"', '"op":"mul"'),
    ('"op":"copy"', '"op":"neg"'),
    ('"op":"silu"', '"op":"relu"'),
    ('"op":"maximum"', '"op":"minimum"'),
    ('"axis":1', '"axis":0'),
    ('"op":"cumsum"', '"op":"cummax"'),
    ('"reverse":true', '"reverse":false'),
    ('"op":"where"', '"op":"fma"'),
    ('"op":"sort"', '"op":"cummax"'),
    ('"op":"merge"', '"op":"cummax"'),
    ('"op":"bitcast"', '"op":"copy"'),
    ('"op":"rearrange"', '"op":"copy"'),
    ('"op":"bit_and"', '"op":"bit_or"'),
    ('"first":1', '"first":0'),
    ('"strides":[1,', '"strides":[2,'),
    ('"strides":[2]', '"strides":[1]'),
    ("0.75", "0.5"),
    ("0.25", "0.5"),
)


class Mutant(NamedTuple):
    """A log with one record changed: `op_id`, and what was done to it."""

    op_id: int
    change: str
    log: OpLog


def mutants(log: OpLog) -> Iterator[Mutant]:
    """Every record dropped, repeated before and after all others, moved, and with each field changed."""
    for op_id in log.ops["op_id"].tolist():
        yield from _of_record(log, op_id)
    for at, op_id in enumerate(log.operands["op_id"].tolist()):
        for field, deltas in _CHANGES.items():
            for delta in deltas:
                operands = log.operands.copy()
                operands[field][at] = _changed(field, int(operands[field][at]), delta)
                yield Mutant(op_id, f"{field} {delta:+}", OpLog(log.ops, operands, log.strings, log.immediates))


def _changed(field: str, value: int, delta: int) -> int:
    if field == "release":
        return 1 - value
    return (value + delta) % 14 if field == "dtype" else value + delta


def _of_record(log: OpLog, op_id: int) -> Iterator[Mutant]:
    mine, rows = log.ops["op_id"] == op_id, log.operands["op_id"] == op_id
    yield Mutant(op_id, "dropped", OpLog(log.ops[~mine], log.operands[~rows], log.strings, log.immediates))
    for change, seq in (("repeated first", -1), ("repeated last", int(log.ops["command_seq"].max()) + 1)):
        ops, operands = log.ops[mine].copy(), log.operands[rows].copy()
        ops["command_seq"], ops["op_id"], operands["op_id"] = seq, 1 << 40, 1 << 40
        tables = np.concatenate((log.ops, ops)), np.concatenate((log.operands, operands))
        yield Mutant(op_id, change, OpLog(*tables, log.strings, log.immediates))
    for field, deltas in _PLACES.items():
        for delta in deltas:
            ops = log.ops.copy()
            ops[field][mine] = (ops[field][mine] + delta) % 3 if field == "kind" else ops[field][mine] + delta
            yield Mutant(op_id, f"{field} {delta:+}", OpLog(ops, log.operands, log.strings, log.immediates))
    params = log.strings[int(log.ops["params"][mine][0])]
    for old, new in _FLIPS:
        if old in params:
            ops = log.ops.copy()
            ops["params"][mine] = len(log.strings)
            strings = [*log.strings, params.replace(old, new)]
            yield Mutant(op_id, f"params {new}", OpLog(ops, log.operands, strings, log.immediates))


class Sweep(NamedTuple):
    """How many mutants there were, how many execution refused, how many gave a wrong output, the equivalent ones by
    what was done, and those that nobody noticed."""

    tried: int
    refused: int
    wrong: int
    equivalent: Counter[str]
    outside_slice: int
    missed: list[str]


def sweep(case: Case, every: int = 1, first: int = 0) -> Sweep:
    """The mutants of *case*, or every n-th of them from *first* on, in tile mode and in fused mode."""
    rectangles = case.rectangles()
    right = Values(case.log, case.memory, case.shift_free)
    expected = [right.of(*each.in_memory) for each in rectangles]
    in_slice = backward_slice(case.log, rectangles)
    tried = refused = wrong = outside = 0
    equivalent, missed = Counter[str](), list[str]()
    for number, mutant in enumerate(mutants(case.log)):
        if number % every != first:
            continue
        tried += 1
        outcomes = [outcome(case, mutant.log, mode) for mode in ("tile", "fused")]
        if "right" not in outcomes:
            refused += outcomes[0] == "refused"
            wrong += outcomes[0] == "wrong"
            if outcomes[0] != outcomes[1]:
                missed.append(f"op {mutant.op_id} {mutant.change}: modes differ, {outcomes}")
            continue
        values = Values(mutant.log, case.memory, case.shift_free) if outcomes == ["right", "right"] else None
        if values is None or [values.of(*each.in_memory) for each in rectangles] != expected:
            missed.append(f"op {mutant.op_id} {mutant.change}: {outcomes}")
            continue
        equivalent[mutant.change] += 1
        outside += mutant.op_id not in in_slice
    return Sweep(tried, refused, wrong, equivalent, outside, missed)


def outcome(case: Case, log: OpLog, mode: Any) -> str:
    """`right`, `wrong` or `refused`. Any other error than a KbError is a defect, and is raised."""
    try:
        result = case.result(Executor(log, case.memory, mode, fuse_from=2).run())
    except KbError:
        return "refused"
    return "right" if compare("out", result, case.expected, case.tolerance).ok else "wrong"


def report(name: str, found: Sweep) -> str:
    kinds = ", ".join(f"{change}: {count}" for change, count in sorted(found.equivalent.items()))
    return (
        f"{name}: {found.tried} mutants, {found.refused} refused, {found.wrong} wrong, "
        f"{found.equivalent.total()} equivalent ({found.outside_slice} of records outside the slice; {kinds}), "
        f"{len(found.missed)} missed"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="try every n-th mutant only")
    parser.add_argument("cases", nargs="*", default=list(CASES))
    options = parser.parse_args()
    missed = 0
    for name in options.cases:
        found = sweep(CASES[name](), options.every)
        print(report(name, found), *found.missed, sep="\n  ", flush=True)
        missed += len(found.missed)
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
