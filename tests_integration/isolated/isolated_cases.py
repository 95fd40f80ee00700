"""Random chips and kernels whose commands can be isolated, and met: each PE works on its own memory, and now and then
on that of another one. The kernel is launched several times, on the same tensors and on others, and the host may write
in between. A run says all that can be compared: its log, counts of every block and link, launch times, and what is to
be computed later."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from chip_specs import changed_chip, chip_spec
from fast_forward import isolated_of, least_stages

from kb_dataexec import MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, TensorRef, TileShape

SIDE, N_SLICES, N_SETS = 96, 8, 2
WIDTHS_GBS = (16, 25.6, 51.2, 64, 100, 102.4, 128, 256)
Step = tuple[Any, ...]


class IsolatedCase(NamedTuple):
    """A chip, the steps of each program, and the launches of the kernel: on which set of tensors, and whether the host
    writes to one of them before. `logs` says whether there is an op log."""

    spec: dict[str, Any]
    programs: list[list[Step]]
    launches: list[tuple[int, bool]]
    logs: bool


class Compared(NamedTuple):
    """What two runs of a case have to have in common, and how many commands ran apart, took a result or were undone."""

    digest: str
    counts: list[object]
    launches: list[object]
    pending: list[object]
    isolated: tuple[int, int, int]


def draw(seed: int) -> IsolatedCase:
    """The case of *seed*."""
    rng = random.Random(seed)
    spec = _chip(rng, "one_sip" if seed % 8 == 6 else "one_cube")
    if seed % 4 == 3:
        _add_packets_and_port(random.Random(f"{seed} network"), spec)
    if seed % 4 == 1:
        _add_slow_pes(random.Random(f"{seed} slow"), spec)
    style, n_pes, others = rng.choice(("same", "own", "own")), rng.randint(1, N_SLICES), rng.choice((0.0, 0.1, 0.5))
    programs = [[_step(rng, others) for _ in range(rng.randint(1, 4))] for _ in range(n_pes)]
    if style == "same":
        programs = [programs[0]] * n_pes
    launches = [(0, False)] * (1 + (rng.random() < 0.3))
    again = random.Random(f"{seed} launches")
    if again.random() < 0.6:
        programs = [[_alone(step) for step in steps] for steps in programs]
    launches += [(again.randrange(N_SETS), again.random() < 0.2) for _ in range(again.choice((0, 2, 5)))]
    if again.random() < 0.3:
        kinds = [[_alone(again.choice(steps))] for steps in programs]
        return IsolatedCase(spec, again.choices(kinds, k=again.randint(4, N_SLICES)), launches, again.random() < 0.5)
    return IsolatedCase(spec, programs, launches, again.random() < 0.7)


def run(case: IsolatedCase, exact: Any, least: int = 1) -> Compared:
    """Simulate *case*. Commands of *least* stages or more are isolated, if *exact* says so."""
    with least_stages(least):
        return _run(case, exact)


def _run(case: IsolatedCase, exact: Any) -> Compared:
    engine = Engine(changed_chip(case.spec), MemoryLogWriter() if case.logs else None, exact=exact)
    host = Host(engine, Path(__file__).parent)
    zeros = np.zeros((SIDE, SIDE), np.float16)
    sets = [
        [
            [host.tensor(name, zeros, DType.F16, slices=[host.hbm_slice_of(number)]) for name in "abc"]
            for number in range(N_SLICES)
        ]
        for _ in range(N_SETS)
    ]
    launches = []
    for number, writes in case.launches:
        if writes:
            host.write(sets[number][0][1], zeros)
        launches.append(host.launch(kernel, sets[number], case.programs, pes=range(len(case.programs))))
    log, isolated = engine.close_log(), isolated_of(engine)
    n_isolated = (0, 0, 0) if isolated is None else (isolated.n_simulated, isolated.n_reused, isolated.n_undone)
    digest = "" if log is None else str(log.digest)
    return Compared(digest, counts_of(engine), launches, _pending(engine, sets), n_isolated)


def kernel(tl: Language, tensors: list[list[TensorRef]], programs: list[list[Step]]) -> None:
    """Each program does its own steps."""
    mine = tl.program_id()
    for kind, (m, n, k), place, tile, epilogue, waits in programs[mine]:
        a, b, c = tensors[mine if place is None else place]
        if kind == "load":
            x = tl.load(b[:k, :n])
            if waits:
                tl.store(c[:k, :n], x)
            continue
        handle = _gemm(tl, (a[:m, :k], b[:k, :n], c[:m, :n]), tile, epilogue, kind == "stream")
        second = _gemm(tl, (c[:m, :k], b[:k, :n], a[:m, :n]), tile, 0, False) if kind == "two" else None
        if waits or second is not None:
            tl.wait(handle)
        if second is not None:
            tl.wait(second)


def _pending(engine: Engine, sets: list[Any]) -> list[object]:
    """Who produces each piece of each tensor."""
    found = []
    for tensors in sets:
        for tensor in itertools.chain.from_iterable(tensors):
            whole = tensor.block(0, 0)
            parts = [whole.part(row, col, 16, 16) for row in range(0, SIDE, 16) for col in range(0, SIDE, 16)]
            found += [(whole.address, engine.memory.pending.producer(part)) for part in parts]
    return list(found)


def _alone(step: Step) -> Step:
    """*step* as one that nothing meets: its program waits for it, and works on its own memory."""
    kind, shape, _, tile, epilogue, _ = step
    return ("stream" if kind == "stream" else "gemm"), shape, None, tile, epilogue, True


def counts_of(engine: Engine) -> list[object]:
    """All that *engine* counts, the time at which it stopped, and what is not free then."""
    now_ps = engine.clock.now_ps
    found: list[object] = [now_ps, engine.session.n_ops]
    found += [(server.node_id, server.stage_type, server.busy_ps, server.served) for server in engine.servers]
    found += [(link.link, link.busy_ps, link.nbytes, max(link.free_ps, now_ps)) for link in engine.fabric.links]
    for node_id, block in engine.components.items():
        found += [(node_id, name, getattr(block, name, None)) for name in ("busy_ps", "read_nbytes", "written_nbytes")]
        found += [(node_id, max(getattr(block, "free_ps", 0), now_ps)), (node_id, block.counts())]
    return found + [(pe_id, *_cuts(engine, pe_id)) for pe_id in engine.pes]


def _cuts(engine: Engine, pe_id: str) -> tuple[object, ...]:
    """The last cuts of buffers and registers of a PE, on which the slots of its next command depend, and the stage that
    claims registers."""
    scheduler: Any = engine.pes[pe_id].scheduler
    buffers, registers, order = scheduler._feeder.cuts()
    return buffers, registers, order[0]


def _gemm(tl: Language, matrices: tuple[Any, Any, Any], tile: int, epilogue: int, streams: bool) -> Any:
    a, b, out = matrices
    ops = ((), (tl.relu(),), (tl.scale(0.5, scope="k_tile"),))[epilogue]
    return tl.composite("gemm", a, b, out=out, tile=TileShape(tile, tile, tile), epilogue=ops, b_stream=streams)


def _step(rng: random.Random, others: float) -> Step:
    shape = tuple(rng.choice((32, 33, 48, 64, 96)) for _ in range(3))
    place = rng.randrange(N_SLICES) if rng.random() < others else None
    kind = rng.choice(("gemm", "gemm", "gemm", "load", "two", "stream"))
    return kind, shape, place, rng.choice((16, 32)), rng.choice((0, 0, 1, 2)), rng.random() < 0.85


def _add_slow_pes(rng: random.Random, spec: dict[str, Any]) -> None:
    """One or two of the first PEs are slow."""
    numbers = rng.sample(range(N_SLICES), rng.randint(1, 2))
    spec["slow"] = {f"pe{number}": rng.choice((1.1, 1.5, 2, 3.7, 40)) for number in numbers}


def _add_packets_and_port(rng: random.Random, spec: dict[str, Any]) -> None:
    if rng.random() < 0.7:
        spec["packets"] = {"payload_nbytes": rng.choice((32, 100, 256)), "header_nbytes": rng.choice((0, 8, 32))}
    if rng.random() < 0.7:
        port = {"port_nbytes": rng.choice((16, 32, 128)), "port_clock_ghz": rng.choice((0.5, 1, 1.7))}
        spec["cube"]["pe_template"]["nodes"]["pe_dma"] |= port


def _chip(rng: random.Random, name: str) -> dict[str, Any]:
    spec = chip_spec(name)
    cube = spec["cube"]
    pe, hbm = cube["pe_template"]["nodes"], cube["nodes"]["hbm"]
    for link in (each for each in cube["links"] if "pe_queue" not in each["from"]):  # no kernel here sends a message
        link["bw_gbs"] = rng.choice((link["bw_gbs"], *WIDTHS_GBS))
        link["length_mm"] = rng.choice((link["length_mm"], 40, 5, 0))
    for name in ("pe_dma", "pe_fetch_store", "pe_gemm", "pe_math"):
        pe[name]["queue_depth"] = rng.choice((1, 2, 4, 8))
    pe["pe_scheduler"]["command_ns"] = rng.choice((0, 2, 8, 16))
    pe["pe_scheduler"]["input_kib"] = rng.choice((6, 8, 12, 24, 64, 512))
    pe["pe_scheduler"]["output_kib"] = rng.choice((4, 8, 12, 64))
    pe["pe_scheduler"]["compute_slots"] = rng.choice(("shared", "independent"))
    pe["pe_fetch_store"]["memory"]["size"] = rng.choice(("12 KiB", "16 KiB", "24 KiB", "64 KiB", "512 KiB"))
    pe["pe_dma"]["setup_ns"] = rng.choice((0, 1, 5, 15))
    pe["pe_cpu"]["issue_ns"] = rng.choice((0, 1, 4, 10))
    pe["pe_tcm"]["latency_ns"] = rng.choice((0, 1, 2))
    hbm["bw_gbs"], hbm["latency_ns"] = rng.choice((12.8, 51.2, 102.4, 204.8)), rng.choice((0, 5, 45))
    if rng.random() < 0.2:
        pe["pe_dma"]["outstanding"] = 2
    return spec
