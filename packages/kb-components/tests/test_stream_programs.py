"""Random programs of the host with streams: one log however work is skipped, right data, and paths without gaps."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampled_cases import sampled

from kb_dataexec import Executor, MemoryLogWriter
from kb_dataexec.analysis import search, where
from kb_engine import Host
from kb_engine.host import read_tensor

DATA = np.arange(256, dtype=np.float32).reshape(16, 16)


def adds_one(tl: Any, a: Any, b: Any, n: int) -> None:
    """Stores *a* + 1 in *b*, in rows for each program, after *n* loads."""
    here, programs = tl.program_id(), tl.num_programs()
    rows = slice(here * 16 // programs, (here + 1) * 16 // programs)
    for _ in range(n):
        x = tl.load(a[rows])
    tl.store(b[rows], x + 1)


class Program:
    """Makes random calls of *host*, with *rng*. With *ordered*, events put all of them in order.

    `model` has what each tensor holds after the calls so far.
    """

    def __init__(self, host: Host, rng: random.Random, ordered: bool) -> None:
        self.host, self._rng, self._ordered = host, rng, ordered
        self.tensors = [host.tensor(f"t{n}", DATA + n, "f32", slices=[n % 2]) for n in range(4)]
        self.model = [DATA + n for n in range(4)]
        self._streams = [host.stream() for _ in range(rng.randint(1, 3))]
        self._last = self._streams[0]
        self._pending: list[Any] = []

    def step(self, number: int) -> None:
        """Makes a call."""
        stream = self._rng.choice(self._streams)
        if self._ordered and stream is not self._last:
            stream.wait(self._last.record())
        self._last = stream
        source, target = self._rng.sample(range(4), 2)
        a, b = self.tensors[source], self.tensors[target]
        what = self._rng.choice(["launch", "launch", "grid", "write", "read", "copy", "look", "plain"])
        pes = sorted(self._rng.sample(range(4), self._rng.randint(1, 3)))
        if what == "launch":
            self._pending.append(self.host.launch(adds_one, a, b, self._rng.randint(1, 4), pes=pes, stream=stream))
        elif what == "grid":
            self._pending.append(self.host.launch(adds_one, a, b, 1, pes=pes, grid=16, stream=stream))
        elif what == "plain":
            self.host.launch(adds_one, a, b, 1, pes=[0])
        elif what == "write":
            self.host.write(a, DATA * number, stream=stream)
            self.model[source] = DATA * number
        elif what == "read":
            self._pending.append(self.host.read(a, stream=stream))
        elif what == "copy":
            self.host.copy(b, a, stream=stream)
            self.model[target] = self.model[source]
        elif self._pending:
            self._rng.choice(self._pending).result()
        if what in ("launch", "grid", "plain"):
            self.model[target] = self.model[source] + 1


def run(host: Callable[..., Host], seed: int, **more: Any) -> tuple[Program, Any]:
    rng = random.Random(seed)
    program = Program(host(writer=MemoryLogWriter(), **more), rng, seed % 2 == 0)
    for number in range(rng.randint(4, 14)):
        program.step(number)
    return program, program.host.engine.close_log()


@pytest.mark.parametrize("seed", sampled(range(200), 12))
def test_a_random_program_has_one_log_right_data_and_whole_paths(host: Callable[..., Host], seed: int) -> None:
    program, log = run(host, seed)
    log.check("log")
    launches = program.host.launches
    for exact in ("events", "check"):
        again, other = run(host, seed, exact=exact)
        assert (other.digest, again.host.launches) == (log.digest, launches)
    if seed % 2 == 0:
        memory = Executor(log, program.host.engine.initial_memory).run()
        for tensor, values in zip(program.tensors, program.model, strict=True):
            assert np.array_equal(read_tensor(memory, tensor), values)
        assert search(log, [(each.start_ps, each.end_ps) for each in launches]).findings == []
    for launch in where(log).launches if launches else ():
        for view in (launch, *launch.pes):
            assert sum(row.ps for row in view.rows) == view.end_ps - view.start_ps
            assert not [row for row in view.rows if row.block == "unknown"]
