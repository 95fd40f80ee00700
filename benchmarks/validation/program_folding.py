"""Do runs that skip programs equal runs of every event? Random grids on random chips, both ways.

    python benchmarks/validation/program_folding.py                    # 10000 cases
    python benchmarks/validation/program_folding.py --cases 50 --first 7
    python benchmarks/validation/program_folding.py --case 7           # one case, with its kernels and its launches

A case is a chip, and one or more launches of grids in one run. The kernels are written in this file or drawn
(`drawn_kernels.py`), and a launch may have other values in the closure and in the globals of its kernel than the launch
before. Some chips have MMUs, and launches there may have some or all tensors at virtual addresses. The two runs have to
agree in the digest of the op log (all times, waits, transfers and texts, and so the attribution), the number of its
rows, the results of the launches, the counters of all blocks, the counts of all links, the busy times of the queues,
the pending bytes, all bytes, and the data that pass 2 computes. Where one run is refused, the other has to be refused
by the same error. The exit code is 1 when a case differs.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unittest import mock

import numpy as np
import yaml
from both_ways import Comparison, Outcome, compare_many, compared, memory_of, state_of
from copying_kernels import COPYING_PROGRAMS
from drawn_kernels import WIDE, DrawnKernels, Values, changes_globals, draw_source

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, LaunchResult, Tensor, TensorRef, read_tensor
from kb_engine.fastforward.isolated.isolated_commands import LEAST_ISOLATED_STAGES
from kb_messages import KbError
from kb_topology import Topology, loads_topology

Exactness = Literal["isolated", "events", "check"]
TOPOLOGIES = Path(__file__).parents[2] / "topologies"
_LIMIT = "kb_engine.fastforward.steady_state.program_skipper._FREE_SNAPSHOTS"
"""How many looks are free. Cases are short, and are searched whatever it costs."""
_LEAST_ISOLATED = "kb_engine.fastforward.isolated.isolated_commands.LEAST_ISOLATED_STAGES"
"""The stages from which on a command is isolated."""


def scaled(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """c = 3 a, some rows a program."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    tl.store(c[mine, :], tl.load(a[mine, :]) * 3.0)


def added(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """c = a + b, with both loads before the sum."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    left, right = tl.load(a[mine, :]), tl.load(b[mine, :])
    tl.store(c[mine, :], left + right)


def softmax(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """The softmax of some rows."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    x = tl.load(a[mine, :])
    powers = tl.exp(x - tl.max(x, axis=1))
    tl.store(c[mine, :], powers / tl.sum(powers, axis=1))


def in_place(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """a = a b, and a copy of it."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    product = tl.load(a[mine, :]) * tl.load(b[mine, :])
    tl.store(a[mine, :], product)
    tl.store(c[mine, :], product)


def same_weights(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """c = a + the first rows of b, which all programs load."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    tl.store(c[mine, :], tl.load(a[mine, :]) + tl.load(b[0:rows, :]))


def product(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Some rows of c are the same rows of a times a square part of b, in two steps."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    total = 0
    for k in (0, 16):
        total = tl.dot(tl.load(a[mine, k : k + 16]), tl.load(b[k : k + 16, 0:32]), total)
    tl.store(c[mine, 0:32], total)


def columns(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """c = a + 1, a part of the columns a program."""
    row, part = divmod(tl.program_id(), 2)
    mine, half = slice(row * rows, row * rows + rows), slice(part * 32, part * 32 + 32)
    tl.store(c[mine, half], tl.load(a[mine, half]) + 1.0)


def handed_on(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """A program loads rows of c that one before has stored. From time to time it is another one."""
    program = tl.program_id()
    mine, later = program * rows, (program + 3 + program // 24) * rows
    x = tl.load(c[mine : mine + rows, :]) + tl.load(a[mine : mine + rows, :])
    tl.store(c[later : later + rows, :], x * 0.5)


def in_turns(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Programs store to four places in turn, and load from there."""
    program = tl.program_id()
    mine, place = program * rows, program % 4 * rows
    x = tl.load(a[mine : mine + rows, :]) * 2.0
    tl.store(c[place : place + rows, :], x)
    tl.store(b[mine : mine + rows, :], tl.exp(tl.load(c[place : place + rows, :])))


def at_times_the_same(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """All programs store to one place. Of 48 programs 24 load from there, and the others from rows of their own."""
    program = tl.program_id()
    place = (program // 24 + 1) % 2 * (program + 1) * rows
    tl.store(c[0:rows, :], tl.exp(tl.load(c[place : place + rows, :])))


def composite(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Rows of a, twice, with a product of several tiles in between."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    x = tl.load(a[mine, :])
    done = tl.composite("gemm", a[mine, 0:64], b[0:64, 0:64], out=c[mine, 0:64], tile=(16, 32, 32))
    tl.wait(done)
    tl.store(a[mine, :], x + x)


def many_turns(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """A vector program of many steps. A small register file cuts it into many pieces, so that it is isolated."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    v = x = tl.load(a[mine, :])
    for _ in range(12):
        x = x * v + 1.0
    tl.store(c[mine, :], x)


KERNELS: tuple[Callable[..., None], ...] = (scaled, added, softmax, in_place, same_weights, product, columns)
HANDING: tuple[Callable[..., None], ...] = (handed_on, in_turns, at_times_the_same, composite)
"""Kernels whose commands meet bytes of other programs, or are not alone in their PE."""
_MORE_ROWS = 3 + 600 // 24 + 1
"""Programs behind the last one whose rows a kernel may use."""
_LEAST_ROWS = 128
"""The rows that a drawn kernel finds in each tensor."""
_MOST_DRAWN = 26
"""The programs of most launches of a drawn kernel, so that a case takes a tenth of a second."""
NO_VALUES = Values(0.0, 0, 0.0, 0)
"""The values of a kernel that reads none."""


class LaunchCase(NamedTuple):
    """A launch of a grid: `grid` programs on `pes` PEs.

    `kernel` is a function of this file, or the number of a source of the case, whose kernel reads `values`. The launch
    works on set number `tensors` of three tensors. `writes` says whether the host overwrites one of them before.
    `mapped` has the numbers of the tensors that the kernel gets at virtual addresses. Tensors stay mapped, unless
    `unmaps` says that the host unmaps all of them before.
    """

    kernel: Callable[..., None] | int
    values: Values
    grid: tuple[int, ...]
    pes: int
    schedule: str
    tensors: int
    writes: bool
    mapped: tuple[int, ...] = ()
    unmaps: bool = False


class Case(NamedTuple):
    """A chip, the sources of drawn kernels, and the launches of a run. Each program works on `rows` x `wide` elements.

    `least_isolated` is the number of stages from which on a command is isolated, and `checks` says whether the run that
    skips programs has `exact="check"`. `in_one_slice` says whether each tensor lies in one HBM slice.
    """

    spec: dict[str, Any]
    sources: tuple[str, ...]
    launches: tuple[LaunchCase, ...]
    rows: int
    wide: int
    in_one_slice: bool
    least_isolated: int
    checks: bool

    @property
    def programs(self) -> int:
        """The programs of the largest launch."""
        return max(prod(launch.grid) for launch in self.launches)


@cache
def _base(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load((TOPOLOGIES / f"{name}.yaml").read_text())
    return spec


def draw(seed: int) -> Case:
    """The case of *seed*. Of ten cases nine have kernels that are drawn."""
    case = _draw_programs(seed) if seed % 10 else _draw_grid(seed)
    rng = random.Random(f"mmu {seed}")
    case = _with_mmus(case, rng) if rng.random() < 0.25 else case
    return _with_slow_pes(case, random.Random(f"slow {seed}"))


def _draw_grid(seed: int) -> Case:
    """A case with one launch of many programs, of a kernel of this file."""
    rng = random.Random(f"program folding {seed}")
    spec = _chip(rng, "one_cube")
    pe = spec["cube"]["pe_template"]["nodes"]
    kernel = rng.choice(KERNELS)
    pes = rng.choice((1, 2, 3, 4, 8, 8))
    wide = 64 if kernel in (product, columns) else rng.choice((64, 64, 128, 256, 512, 512, 1024, 100, 72))
    programs, rows = pes * rng.randint(20, 70) + rng.randrange(pes), rng.choice((1, 1, 2, 4))
    if rng.random() < 0.3:
        kernel, wide = rng.choice(HANDING), rng.choice((512, 512, 1024, 128))
    if rng.random() < 0.3:
        kernel = rng.choice(COPYING_PROGRAMS)
    least_isolated = 1 if rng.random() < 0.3 else LEAST_ISOLATED_STAGES
    if rng.random() < 0.15:
        kernel, wide, rows = many_turns, rng.choice((256, 512, 1024)), rng.choice((1, 2, 4))
        pe["pe_fetch_store"]["memory"]["size"] = rng.choice(("4 KiB", "8 KiB"))
    if pe["pe_cpu"]["issue"] == "decoupled":
        shorten_tcm(pe, rng)
    launch = LaunchCase(kernel, NO_VALUES, (programs,), pes, _schedule(rng), 0, False)
    rows = rows if kernel is not product else 16
    return Case(spec, (), (launch,), rows, wide, False, least_isolated, False)


def _draw_programs(seed: int) -> Case:
    """A case with one to three launches of drawn kernels."""
    rng = random.Random(f"drawn programs {seed}")
    spec = _chip(rng, rng.choice((*(("one_pe", "one_pe", "one_cube") * 8), "one_cube_banked")))
    pe = spec["cube"]["pe_template"]["nodes"]
    pe["pe_fetch_store"]["memory"]["size"] = rng.choice(("8 KiB", "8 KiB", "12 KiB", "32 KiB", "512 KiB"))
    if rng.random() < 0.4:
        shorten_tcm(pe, rng)
    axes, most_pes = rng.choice((1, 1, 2)), 1 if spec["name"] == "one_pe" else 8
    sources = tuple(draw_source(rng, axes) for _ in range(rng.choice((1, 1, 2))))
    launches: list[LaunchCase] = []
    for number in range(rng.choice((1, 1, 2, 3))):
        pes = min(rng.choice((1, 1, 1, 2, 3, 8)), most_pes)
        along = min(pes * rng.randint(6, 24), _MOST_DRAWN) + rng.randrange(pes)
        grid = (along,) if axes == 1 else (max(along // 3, 1), 3)
        values = Values(
            rng.choice((1.0, 0.5, 2.0)), rng.choice((1, 4, 12, 30)), rng.choice((1.5, 3.0)), rng.randrange(4)
        )
        launch = LaunchCase(rng.randrange(len(sources)), values, grid, pes, _schedule(rng), rng.randrange(2), False)
        if number and rng.random() < 0.6:
            launch = launches[-1]._replace(values=rng.choice((values, launches[-1].values)), tensors=launch.tensors)
        launches.append(launch._replace(writes=number > 0 and rng.random() < 0.3))
    least_isolated = 1 if rng.random() < 0.5 else LEAST_ISOLATED_STAGES
    rows = rng.choice((1, 2, 4, 8, 8, 16))
    in_one_slice, checks = rng.random() < 0.5, rng.random() < 0.1 and not any(map(changes_globals, sources))
    return Case(spec, sources, tuple(launches), rows, WIDE, in_one_slice, least_isolated, checks)


def _with_mmus(case: Case, rng: random.Random) -> Case:
    """*case* on a chip with MMUs, a fifth of the time as one of many cubes behind a host. Half of the launches have
    tensors at virtual addresses."""
    spec = _in_a_sip(case.spec) if rng.random() < 0.2 else case.spec
    template = spec["cube"]["pe_template"]
    template["nodes"]["pe_mmu"] = {
        "kind": "pe_mmu",
        "impl": "builtin.pe_mmu",
        "page_kib": rng.choice((4, 16)),
        "tlb_entries": rng.choice((1, 2, 8)),
        "hit_ns": rng.choice((0, 1)),
        "levels": 2,
        "level_ns": rng.choice((10, 50)),
    }
    template["wires"] = list(dict.fromkeys((*template["wires"], "pe_dma -> pe_mmu")))
    launches = [
        each._replace(mapped=rng.choice(((), (), (), (0,), (2,), (0, 1, 2))), unmaps=number > 0 and rng.random() < 0.3)
        for number, each in enumerate(case.launches)
    ]
    return case._replace(spec=spec, launches=tuple(launches))


def _with_slow_pes(case: Case, rng: random.Random) -> Case:
    """*case*, a fifth of the time with one or two slow PEs among those that run programs."""
    n_pes = max(launch.pes for launch in case.launches)
    slow = {f"pe{number}": rng.choice((1.1, 2, 3.7)) for number in rng.sample(range(n_pes), min(n_pes, 2))}
    return case._replace(spec={**case.spec, "slow": slow}) if rng.random() < 0.2 else case


def _in_a_sip(spec: dict[str, Any]) -> dict[str, Any]:
    """The bundled chip `one_sip` with the options of the PEs of *spec*."""
    sip = copy.deepcopy(_base("one_sip"))
    own, pe = (each["cube"]["pe_template"]["nodes"] for each in (sip, spec))
    own |= {name: node for name, node in pe.items() if name != "pe_tcm"}
    own["pe_tcm"]["memory"] = pe["pe_tcm"]["memory"]
    return sip


def _schedule(rng: random.Random) -> str:
    return rng.choice(("dynamic", "dynamic", "static"))


def _chip(rng: random.Random, name: str) -> dict[str, Any]:
    """The bundled chip *name* with other numbers and options."""
    spec = copy.deepcopy(_base(name))
    cube = spec["cube"]
    if cube["nodes"]["hbm"]["count"] > 1:
        spec["hbm_interleave_nbytes"] = rng.choice((256, 256, 512, 1024, 64))
    nodes, pe = cube["nodes"], cube["pe_template"]["nodes"]
    if nodes["hbm"]["impl"] == "builtin.hbm_fixed":
        nodes["hbm"]["bw_gbs"] = rng.choice((51.2, 102.4, 102.4, 204.8, 33.3))
        nodes["hbm"]["latency_ns"] = rng.choice((0, 16.25, 45, 120))
    nodes["xbar"]["overhead_ns"] = rng.choice((0, 2, 4.5))
    for link in (each for each in cube["links"] if "pe_queue" not in each["from"]):  # no kernel here sends a message
        link["bw_gbs"] = rng.choice((link["bw_gbs"], link["bw_gbs"], 64, 100, 256))
        link["length_mm"] = rng.choice((0, 2, 3, 17.5))
    pe["pe_cpu"] |= {"issue_ns": rng.choice((0, 1, 4, 10)), "program_ns": rng.choice((0, 20, 100))}
    pe["pe_cpu"]["issue"] = rng.choice(("blocking", "blocking", "scoreboard", "scoreboard", "scoreboard", "decoupled"))
    pe["pe_scheduler"]["command_ns"] = rng.choice((0, 8, 16))
    pe["pe_dma"]["setup_ns"] = rng.choice((0, 5, 15))
    pe["pe_math"] |= {"lanes": rng.choice((4, 32, 128)), "clock_ghz": rng.choice((0.5, 1.0, 1.7))}
    pe["pe_fetch_store"]["memory"]["size"] = rng.choice(("64 KiB", "128 KiB", "512 KiB"))
    pe["pe_dma"] |= {"outstanding": rng.choice((1, 1, 2, 4)), "answers": rng.choice(("any_order", "in_order"))}
    pe["pe_scheduler"] |= {
        "submission_depth": rng.choice((1, 2, 8)),
        "compute_slots": rng.choice(("shared", "independent")),
    }
    for block in ("pe_dma", "pe_fetch_store", "pe_gemm", "pe_math"):
        pe[block]["queue_depth"] = rng.choice((1, 4))
    return spec


def shorten_tcm(pe: dict[str, Any], rng: random.Random) -> None:
    """Leave little TCM beside the tile buffers of a PE, so that programs get the same bytes again soon.

    In the TCM of the bundled chip a period of programs that are issued decoupled is longer than a case.
    """
    buffers_kib = pe["pe_scheduler"]["input_kib"] + pe["pe_scheduler"]["output_kib"]
    pe["pe_tcm"]["memory"]["size"] = f"{buffers_kib + rng.choice((8, 16, 24, 32))} KiB"


def run(case: Case, topology: Topology, exact: Exactness, log: bool = True) -> Outcome:
    """Runs the launches of *case*. Programs are skipped unless *exact* is `events`."""
    engine = Engine(topology, MemoryLogWriter() if log else None, exact=exact)
    host = Host(engine, Path(__file__).parent)
    with ExitStack() as patches:
        for name, value in {_LIMIT: 1 << 20, _LEAST_ISOLATED: case.least_isolated}.items():
            patches.enter_context(mock.patch(name, value))
        try:
            tensors = [_tensors(host, case, number) for number in range(2)]
            results = _launch_all(host, case, tensors)
            closed = engine.close_log()
        except KbError as error:
            return Outcome({"refusal": str(error), "end": engine.clock.now_ps}, 0)
    found = state_of(engine, results, closed) | memory_of(engine, [each for some in tensors for each in some])
    found["ops"] = engine.session.n_ops
    if closed is not None:
        after = Executor(closed, engine.initial_memory).run()
        found["rows"] = closed.n_ops
        found["data"] = [read_tensor(after, each).tobytes() for some in tensors for each in some]
    return Outcome(found, engine.work.skipped_programs)


def _tensors(host: Host, case: Case, number: int) -> list[Tensor]:
    """Set *number* of the three tensors of *case*."""
    n_rows = max(case.programs * case.rows, _LEAST_ROWS)
    more = np.arange((n_rows + _MORE_ROWS * case.rows) * case.wide, dtype=np.float32).reshape(-1, case.wide)
    if case.sources:
        more = more % 7 / 8  # so that sums and powers stay finite
    data = {"a": more[:n_rows], "b": more + 1, "c": more + 2}
    slices = [number % host.num_slices] if case.in_one_slice else None
    return [host.tensor(f"{name}{number}", each, DType.F32, slices=slices) for name, each in data.items()]


def _launch_all(host: Host, case: Case, tensors: list[list[Tensor]]) -> list[LaunchResult]:
    drawn, results = [DrawnKernels(source) for source in case.sources], []
    mapped: dict[str, Tensor] = {}
    for each in case.launches:
        mine = list(tensors[each.tensors])
        while each.unmaps and mapped:
            host.unmap(mapped.popitem()[1])
        for number in each.mapped:
            name = mine[number].name
            mine[number] = mapped[name] = mapped[name] if name in mapped else host.map(mine[number])
        kernel = drawn[each.kernel].kernel(each.values) if isinstance(each.kernel, int) else each.kernel
        if each.writes:
            host.write(mine[1], np.full(mine[1].shape, 0.75, np.float32))
        results.append(
            host.launch(kernel, *mine, case.rows, pes=range(each.pes), grid=each.grid, schedule=each.schedule)
        )
    return results


def compare(seed: int) -> Comparison:
    """The case of *seed* both ways; one in five without a log."""
    case = draw(seed)
    topology = loads_topology(yaml.safe_dump(case.spec))
    ways: tuple[Exactness, ...] = "events", "check" if case.checks else "isolated"
    simulated, skipping = (run(case, topology, exact, seed // 10 % 5 < 4) for exact in ways)
    return compared(seed, skipping, simulated)


def show(seed: int) -> str:
    """The kernels and the launches of the case of *seed*, as text."""
    case = draw(seed)
    texts = [f"{number}:\n{source}" for number, source in enumerate(case.sources)]
    return "\n".join([*texts, *map(str, case.launches), str(case._replace(sources=(), launches=()))])


if __name__ == "__main__":
    sys.exit(compare_many(__doc__, compare, 10000, "programs", show))
