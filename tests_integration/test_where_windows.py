"""Where the time went, followed window by window: the answer is that of the whole log. `nox -s cases` follows more."""

import random
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import msgspec
import numpy as np
import pytest
from sampled_cases import sampled

from kb_dataexec import OpLog
from kb_dataexec.analysis import where
from kb_dataexec.analysis.windows.where_windows import where_in_windows
from kb_dataexec.log.tables import LeftOut

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks" / "validation")
    random_kernels, random_chips = import_module("random_kernels"), import_module("random_chips")
    random_networks = import_module("random_networks")


class InChunks:
    """*log* in chunks of *n* records, its further tables in the first."""

    def __init__(self, log: OpLog, n: int) -> None:
        self._log, self._n = log, n

    def chunks(self) -> Iterator[OpLog]:
        """As those of a LogFolder."""
        log = self._log
        for low in range(0, max(log.n_ops, 1), self._n):
            ops = log.ops[low : low + self._n]
            operands = log.operands[np.isin(log.operands["op_id"], ops["op_id"])]
            tables = {name: table[: None if low == 0 else 0] for name, table in log.tables.items()}
            yield OpLog(ops, operands, log.strings, log.immediates, tables=tables)

    def some_chunks(self, is_left_out: LeftOut) -> Iterator[OpLog]:
        """As those of a LogFolder."""
        return (chunk for chunk in self.chunks() if not is_left_out(*chunk.ops["t_out_ps"][[0, -1]].tolist()))


def check(log: OpLog, n: int) -> None:
    expected = msgspec.json.encode(where(log))
    for most_kept in (0, log.n_ops):
        seen: list[int] = []
        found = where_in_windows(
            InChunks(log, n), lambda chunk, seen=seen: seen.append(chunk.n_ops), most=1, most_kept=most_kept
        )
        assert msgspec.json.encode(found) == expected
        assert sum(seen) == log.n_ops


@pytest.mark.parametrize("seed", sampled(range(20), 3))
def test_random_kernels(seed: int) -> None:
    check(random_kernels.run(seed), 8)


@pytest.mark.parametrize("seed", sampled(range(12), 2))
def test_random_chips_with_several_transfers_under_way(seed: int) -> None:
    case = random_chips.draw(seed, 4)
    case.spec["cube"]["pe_template"]["nodes"]["pe_dma"]["outstanding"] = random.Random(seed).choice((1, 2, 4, 8))
    check(random_chips.run(case), 5)


@pytest.mark.parametrize("seed", sampled(range(100, 108), 2))
def test_random_networks(seed: int) -> None:
    case = random_networks.with_network(random_chips.draw(seed, 4))
    case.spec["cube"]["pe_template"]["nodes"]["pe_dma"]["outstanding"] = random.Random(seed).choice((1, 2, 4, 8))
    check(random_chips.run(case), 5)
