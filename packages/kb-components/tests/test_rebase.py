"""`Engine.rebase`: the log of a launch is that of a chip that was just built, with later times."""

from pathlib import Path

import numpy as np
import pytest
from components_two_cubes import HOST

from kb_dataexec import Executor, MemoryLogWriter, MemoryStore
from kb_engine import Engine, Host, read_tensor
from kb_messages import KbError, split_address

RNG = np.random.default_rng(67)
A = RNG.standard_normal((64, 32)).astype(np.float32)
INTERLEAVED = (("wire_ps_per_mm: 0\n", "wire_ps_per_mm: 0\nhbm_interleave_nbytes: 256\n"),)


def rows_of_exp(tl, a, out, total, near):
    """Programs that meet at the HBM and its links: loads, math, a look at what was computed, stores and an atomic."""
    first = tl.program_id() * 8
    x = tl.exp(tl.load(a[first : first + 8, :]))
    tl.store(near, tl.full((1, 16), 3.0, "f32"))
    tl.load(near)
    tl.load(a[first : first + 8, :], mask=tl.arange(8)[:, None] < 4, other=2.0)
    if float(tl.materialize(tl.sum(tl.sum(x, 1), 0))) > 0:
        x = x + 1.0
    tl.store(out[first : first + 8, :], x)
    tl.atomic_add(total[0:1], 1)


def launched(engine, a, n_programs=8):
    """The log, the output and the count of programs of one launch on *engine*, and when the host called."""
    host = Host(engine, Path(__file__).parent)
    x, out = host.tensor("a", a, "f32"), host.empty("out", a.shape, "f32")
    total = host.tensor("total", np.zeros(1, np.int32), "i32")
    near = host.empty("near", (1, 16), "f32", memory="tcm", shard="replica")
    result = host.launch(rows_of_exp, x, out, total, near, grid=n_programs, pes="all")
    log = engine.close_log()
    memory = Executor(log, engine.initial_memory).run()
    return log, read_tensor(memory, out), read_tensor(memory, total), result.call_ps


def without_times(table, since_ps):
    """*table* with all times from *since_ps* on. A time of -1 stands for none."""
    plain = table.copy()
    for name in table.dtype.names:
        if name.startswith("t_"):
            plain[name] = np.where(table[name] >= 0, table[name] - since_ps, table[name])
    return plain.tobytes()


@pytest.fixture(params=["plain", "host", "interleaved"])
def topology(request, chip, two_pes, two_halves):
    return chip(*{"plain": two_pes, "host": HOST, "interleaved": (*two_halves, *INTERLEAVED)}[request.param])


def test_the_log_of_each_launch_is_that_of_a_new_chip(topology):
    engine = Engine(topology, MemoryLogWriter())
    fresh, *_, since_ps = launched(Engine(topology, MemoryLogWriter()), A)
    times = []
    launched(engine, A[:48], n_programs=6)
    for _ in range(2):
        engine.rebase(MemoryStore(engine.memory.store.regions), MemoryLogWriter())
        log, out, total, called_ps = launched(engine, A)
        np.testing.assert_allclose(out, np.exp(A.astype(np.float64)) + 1.0, rtol=1e-5)
        assert total == 8
        assert log.strings == fresh.strings
        assert log.immediates == fresh.immediates
        assert without_times(log.ops, called_ps) == without_times(fresh.ops, since_ps)
        assert log.operands.tobytes() == fresh.operands.tobytes()
        for name, table in log.tables.items():
            assert without_times(table, called_ps) == without_times(fresh.tables[name], since_ps), name
        times.append(called_ps)
    assert 0 < times[0] < times[1]


def test_without_a_log_the_clock_runs_on(chip):
    engine = Engine(chip())
    store = MemoryStore(engine.memory.store.regions)
    ends = []
    for _ in range(3):
        host = Host(engine)
        a = host.tensor("a", A, "f32")
        ends.append(host.launch(lambda tl, a: tl.store(a[0:8, :], tl.load(a[8:16, :])), a).end_ps)
        engine.rebase(store.snapshot())
    assert ends[1] == 2 * ends[0]
    assert ends[2] == 3 * ends[0]


def test_the_memories_hold_what_they_are_given_and_nothing_is_pending(chip):
    engine = Engine(chip(), MemoryLogWriter())
    host = Host(engine)
    a = host.tensor("a", A, "f32")
    host.launch(lambda tl, a: tl.store(a, tl.exp(tl.load(a))), a)
    after = Executor(engine.close_log(), engine.initial_memory).run()
    assert engine.memory.pending.producer(a.block(0, 0)) is not None
    engine.rebase(after, MemoryLogWriter())
    assert engine.initial_memory is None
    assert engine.memory.pending.producer(a.block(0, 0)) is None
    assert engine.fabric.path("sip0.cube0.pe0.pe_dma", split_address(a.addresses[0][0])[0]).requests.holders == [-1, -1]
    host = Host(engine)
    again = host.empty("a", A.shape, "f32")
    assert again == a
    np.testing.assert_allclose(host.read(again), np.exp(A.astype(np.float64)), rtol=1e-6)


def test_a_log_is_needed_where_there_was_one_and_refused_where_there_was_none(chip):
    with pytest.raises(KbError) as caught:
        Engine(chip(), MemoryLogWriter()).rebase(MemoryStore(()))
    assert str(caught.value) == "rebase: got no writer for an engine with an op log, needs one"
    with pytest.raises(KbError) as caught:
        Engine(chip()).rebase(MemoryStore(()), MemoryLogWriter())
    assert str(caught.value) == "rebase: got a writer for an engine without an op log, needs none"
