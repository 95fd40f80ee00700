"""The walk by columns against the plain one, segment by segment, on random kernels and random chips.

A sixth of them; `nox -s cases` walks all.
"""

import random
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from sampled_cases import sampled

from kb_dataexec import OpLog
from kb_dataexec.analysis import path

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[1] / "benchmarks" / "validation")
    patch.syspath_prepend(Path(__file__).parent / "attribution")
    random_kernels, random_chips = import_module("random_kernels"), import_module("random_chips")
    random_networks = import_module("random_networks")
    reference = import_module("attribution_reference")

MOST_OPS = 600
"""The plain walk looks through all rows for each event."""


def without_transfers(log: OpLog) -> OpLog:
    tables = {name: log.tables[name] for name in log.tables if name != "transfers"}
    return OpLog(log.ops, log.operands, log.strings, log.immediates, tables=tables)


def check(log: OpLog) -> bool:
    """Whether *log* is short enough to compare."""
    if log.n_ops > MOST_OPS:
        return False
    log = without_transfers(log)
    kernels = log.table("kernels")
    expected = reference.PlainWalk(log, int(np.argmax(kernels["t_end_ps"]))).segments[::-1]
    found = path(log, 0)
    texts = [
        [found.strings[number] for number in getattr(found, name)] for name in ("pe", "line", "block", "what", "via")
    ]
    rows = list(zip(found.start_ps.tolist(), found.end_ps.tolist(), *texts, found.op_id.tolist(), strict=True))
    assert [row for row in rows if row[2]] == expected
    return True


def test_random_kernels() -> None:
    seeds = sampled(range(60), 10)
    assert sum(check(random_kernels.run(seed)) for seed in seeds) > len(seeds) // 2


def test_random_chips_with_several_transfers_under_way() -> None:
    compared, seeds = 0, sampled(range(60), 10)
    for seed in seeds:
        case = random_chips.draw(seed, 3)
        outstanding = random.Random(seed).choice((1, 2, 4, 8))
        case.spec["cube"]["pe_template"]["nodes"]["pe_dma"]["outstanding"] = outstanding
        compared += check(random_chips.run(case))
    assert compared > len(seeds) // 2


def test_random_chips_with_packets_ports_and_buffers() -> None:
    cases = (random_networks.with_network(random_chips.draw(seed, 3)) for seed in range(100, 110))
    assert sum(check(random_chips.run(case)) for case in cases) > 4
