"""A chip with MMUs skips work as the same chip without MMUs does, where no tensor is at virtual addresses.

Each kind of launch is tried on some chips; `nox -s cases` tries all.
"""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml
from sampled_cases import sampled_of_each

from kb_components.pe.pe_mmu import PeMmu
from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Engine, Host, Language, LaunchResult, Tensor, TensorRef, read_tensor
from kb_engine.engine.registry import GROUP, Registry
from kb_engine.engine.simulated_work import SimulatedWork
from kb_messages import Rectangle
from kb_topology import Topology, loads_topology

pytestmark = pytest.mark.speed


ROOT = Path(__file__).parents[1]
MMU = {"kind": "pe_mmu", "page_kib": 64, "tlb_entries": 64, "hit_ns": 1, "levels": 2, "level_ns": 50}
HIT_PS, WALK_PS = 1000, 2 * 50_000
ROWS, COLUMNS = 320, 1024
"""A row is 4 KiB, and a matrix is 20 pages: tensors lie at the same addresses on chips with and without MMUs."""
N_PAGES = 20
TRANSFER_PS = 5000 + 2 * (2 * 7 + 2000 + 3 * 7) + 45_000 + 40_000
"""A row on `one_pe`: set-up, the way there and back, the latency of HBM, and 4096 bytes at 102.4 GB/s."""
MATH_PS = (2 + 8) * 1000 + 1024 // 128 * 1000 + (2 + 8) * 1000
"""A row from and to TCM at 512 bytes a cycle, and its product in 128 lanes."""
PROGRAM_PS = 20_000 + 3 * (4000 + 8000) + 2 * TRANSFER_PS + MATH_PS
"""A program of `doubled` on `one_pe`: its start, the issue and decoding of three commands, and these."""


class Silent(PeMmu):
    """An MMU of another maker, whose class says nothing of skipping."""

    state = ("touched",)

    def __init__(self, spec: Any, context: Any) -> None:
        super().__init__(spec, context)
        self.touched: list[int] = []

    def lookup_ps(self, memory: Rectangle) -> int:
        """As `PeMmu.lookup_ps`, and notes the address."""
        self.touched.append(memory.base)
        return super().lookup_ps(memory)


class Refilling(PeMmu):
    """An MMU that works on after its first lookup, which the contract forbids: it moves its oldest page 1500 times,
    five times in a program of `doubled` on one PE."""

    state = ("_to_go",)
    _to_go = 1500

    def lookup_ps(self, memory: Rectangle) -> int:
        """As `PeMmu.lookup_ps`, and begins to move pages."""
        if not self.tlb_misses:
            self.clock.call_at(self.clock.now_ps, self._move, None, self.event_order)
        return super().lookup_ps(memory)

    def _move(self, _: None) -> None:
        self._to_go -= 1
        self._tlb.move_to_end(next(iter(self._tlb)))
        if self._to_go > 0:
            self.clock.call_at(self.clock.now_ps + PROGRAM_PS // 5, self._move, None, self.event_order)


def doubled(tl: Language, x: TensorRef, y: TensorRef) -> None:
    row = slice(tl.program_id(), tl.program_id() + 1)
    tl.store(y[row, :], tl.load(x[row, :]) * 2.0)


def doubled_turned(tl: Language, x: TensorRef, y: TensorRef) -> None:
    """Two programs at a time, so that a PE that issues ahead has several commands under way."""
    row = slice(tl.program_id() // 2 * 2, tl.program_id() // 2 * 2 + 2)
    tl.store(y[row, 0:512], tl.exp(tl.load(x[row, 512:1024])) + tl.load(x[row, 0:512]))


def product(tl: Language, x: TensorRef, y: TensorRef) -> None:
    tl.wait(tl.composite("gemm", x[0:256, 0:256], x[0:256, 256:512], out=y[0:256, 0:256], tile=(16, 16, 16)))


def products(tl: Language, x: TensorRef, y: TensorRef) -> None:
    for _ in range(3):
        tl.wait(tl.composite("gemm", x[0:128, 0:128], x[0:128, 128:256], out=y[0:128, 0:128], tile=(16, 16, 16)))


def some_at_virtual_addresses(tl: Language, x: TensorRef, y: TensorRef, mapped: TensorRef) -> None:
    """The first programs leave commands at virtual addresses under way. Later ones have none."""
    if tl.program_id() < 2:
        tl.composite("relu", mapped[0:32, 0:512], out=mapped[0:32, 512:1024], tile=(16, 16))
    else:
        doubled(tl, x, y)


def chip(base: str, impl: str = "", issue: str = "blocking") -> Topology:
    """The bundled chip *base* with MMUs of class *impl*, or without MMUs."""
    spec = yaml.safe_load((ROOT / f"topologies/{base}.yaml").read_text())
    template = spec["cube"]["pe_template"]
    template["nodes"]["pe_cpu"]["issue"] = issue
    template["nodes"].pop("pe_mmu", None)
    template["wires"] = [wire for wire in template["wires"] if wire != "pe_dma -> pe_mmu"]
    if impl:
        template["nodes"]["pe_mmu"] = {**MMU, "impl": impl}
        template["wires"].append("pe_dma -> pe_mmu")
    return loads_topology(yaml.safe_dump(spec))


class Run(NamedTuple):
    """What a run left: how its work was simulated, its launches, the digest, the data, and the counts of all MMUs."""

    work: SimulatedWork
    launches: list[LaunchResult]
    digest: str
    y: np.ndarray[Any, Any]
    lookups: int
    walks: int


Launches = Callable[[Host, Tensor, Tensor], object]


def run(launches: Launches, topology: Topology, exact: Any = "isolated", slices: list[int] | None = None) -> Run:
    """A run of *launches* on tensors x and y, by default spread over slices."""
    points = [*entry_points(group=GROUP), *[EntryPoint(f"own.{n}", f"{__name__}:{n}", GROUP) for n in OWN]]
    engine = Engine(topology, MemoryLogWriter(), registry=Registry(points), exact=exact)
    host = Host(engine, ROOT)
    data = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) % 13
    x, y = host.tensor("x", data, "f32", slices=slices), host.tensor("y", data, "f32", slices=slices)
    launches(host, x, y)
    log = engine.close_log()
    assert log is not None
    after = np.array(read_tensor(Executor(log, engine.initial_memory).run(), y))
    mmus = [pe.mmu.counts() for pe in engine.pes.values() if pe.mmu is not None]
    hits, walks = (sum(each[name] for each in mmus) for name in ("tlb_hits", "tlb_misses"))
    return Run(engine.work, list(host.launches), log.digest, after, hits + walks, walks)


OWN = ("Silent", "Refilling")
KINDS: dict[str, Launches] = {
    "programs": lambda host, x, y: host.launch(doubled, x, y, grid=ROWS),
    "programs of two rows": lambda host, x, y: host.launch(doubled_turned, x, y, grid=ROWS),
    "programs on three PEs": lambda host, x, y: host.launch(
        doubled, x, y, grid=ROWS - 7, pes=range(min(3, host.num_pes))
    ),
    "tiles": lambda host, x, y: host.launch(product, x, y, pes=[0]),
    "isolated commands": lambda host, x, y: host.launch(products, x, y, pes=[0]),
    "several launches": lambda host, x, y: [host.launch(doubled, x, y, grid=ROWS) for _ in range(3)],
}


def skipped(work: SimulatedWork) -> tuple[int, ...]:
    """All counts of *work*."""
    return (work.isolated_commands, work.skipped_commands, work.skipped_programs, work.skipped_tiles, work.events)


IMPLS = ["builtin.pe_mmu", "own.Silent"]
CASES = [(base, kind, impl) for impl in IMPLS for base in ("one_pe", "one_cube", "one_sip") for kind in KINDS]


@pytest.mark.parametrize(("base", "kind", "impl"), sampled_of_each(CASES, lambda case: case[1], 2))
def test_as_much_is_skipped_as_without_mmus(base: str, kind: str, impl: str) -> None:
    launches = KINDS[kind]
    with_mmus, without = run(launches, chip(base, impl), slices=[0]), run(launches, chip(base), slices=[0])
    assert any(skipped(without.work)[:4])
    assert skipped(with_mmus.work) == skipped(without.work)
    assert with_mmus.work.slow_path == without.work.slow_path
    assert with_mmus.digest == without.digest == run(launches, chip(base, impl), "events", slices=[0]).digest
    assert with_mmus.lookups == 0


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("issue", ["scoreboard", "decoupled"])
def test_as_much_is_skipped_where_pes_issue_ahead(issue: str, impl: str) -> None:
    launches = KINDS["programs"]
    topologies = chip("one_pe", impl, issue), chip("one_pe", issue=issue)
    with_mmus, without = (run(launches, each) for each in topologies)
    assert skipped(with_mmus.work) == skipped(without.work)
    assert with_mmus.work.skipped_programs > 0
    assert with_mmus.digest == without.digest == run(launches, topologies[0], "events").digest


def elapsed_ps(launch: LaunchResult) -> int:
    return launch.end_ps - launch.start_ps


def test_launches_before_and_after_a_mapping_skip_and_the_mapped_one_pays_for_each_page() -> None:
    """A program of the mapped launch looks a page up for its load, and one for its store: 2 lookups a program. The TLB
    holds the 40 pages of both tensors, so each page is walked for once in all launches until it is unmapped."""
    by_launch: list[int] = []

    def launches(host: Host, x: Tensor, y: Tensor) -> None:
        def launch(*tensors: Tensor) -> None:
            host.launch(doubled, *tensors, grid=ROWS)
            by_launch.append(host.engine.work.skipped_programs - sum(by_launch))

        launch(x, y)
        mapped_x = host.map(x)
        launch(x, y)
        mapped_y = host.map(y)
        launch(mapped_x, mapped_y)
        launch(x, y)
        host.unmap(mapped_x)
        launch(x, mapped_y)
        launch(x, y)

    found = run(launches, chip("one_pe", "builtin.pe_mmu"))
    assert [each > ROWS // 2 for each in by_launch] == [True, True, False, True, False, True]
    assert [by_launch[2], by_launch[4]] == [0, 0]
    assert [(each.why.cause, each.why.change) for each in found.work.slow_path] == [
        ("the kernel uses virtual addresses", "map nothing, and pass the tensors themselves")
    ]
    physical_ps = ROWS * PROGRAM_PS
    assert elapsed_ps(found.launches[0]) == physical_ps
    assert [elapsed_ps(each) - physical_ps for each in found.launches] == [
        0, 0, 2 * ROWS * HIT_PS + 2 * N_PAGES * WALK_PS, 0, ROWS * HIT_PS, 0
    ]  # fmt: skip
    assert (found.lookups, found.walks) == (3 * ROWS, 2 * N_PAGES)
    assert found.digest == run(launches, chip("one_pe", "builtin.pe_mmu"), "events").digest
    np.testing.assert_array_equal(found.y, np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) % 13 * 2.0)


@pytest.mark.parametrize("which", [0, 1])
def test_a_launch_with_one_mapped_tensor_of_two_runs_event_by_event(which: int) -> None:
    def launches(host: Host, *tensors: Tensor) -> None:
        passed = [host.map(each) if number == which else each for number, each in enumerate(tensors)]
        host.launch(doubled, *passed, grid=ROWS)

    found = run(launches, chip("one_cube", "builtin.pe_mmu"))
    assert skipped(found.work)[:4] == (0, 0, 0, 0)
    assert found.lookups == ROWS
    assert found.digest == run(launches, chip("one_cube", "builtin.pe_mmu"), "events").digest


def test_commands_are_isolated_beside_a_mapped_tensor_unless_they_use_it() -> None:
    """Of two commands in each of four launches, the one that reads a mapped operand runs event by event."""

    def both(tl: Language, x: TensorRef, y: TensorRef, mapped: TensorRef) -> None:
        for each in (x, mapped):
            tl.wait(tl.composite("gemm", each[0:64, 0:64], x[0:64, 64:128], out=y[0:64, 0:64], tile=(16, 16, 16)))

    def launches(host: Host, x: Tensor, y: Tensor) -> None:
        mapped = host.map(x)
        for _ in range(4):
            host.launch(both, x, y, mapped, pes=[0])

    found = run(launches, chip("one_cube", "builtin.pe_mmu"), slices=[0])
    assert found.work.isolated_commands == 3, "all but the first of its kind"
    assert found.lookups == 4 * 4**3 * 2, (
        "a tile of 16 rows lies in a page; both operands are read for each of 4 x 4 x 4 tiles"
    )
    assert found.digest == run(launches, chip("one_cube", "builtin.pe_mmu"), "events", slices=[0]).digest


def first_two_mapped(host: Host, x: Tensor, y: Tensor) -> None:
    mapped = host.map(host.tensor("z", np.ones((32, COLUMNS), np.float32), "f32"))
    host.launch(some_at_virtual_addresses, x, y, mapped, grid=ROWS)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("base", ["one_pe", "one_cube"])
def test_programs_that_follow_mapped_ones_in_a_launch_are_skipped_when_these_are_done(base: str, impl: str) -> None:
    found = run(first_two_mapped, chip(base, impl), "check")
    assert found.work.skipped_programs > ROWS // 2
    assert found.lookups == 2 * 2 * 64, "a page for each of the 2 x 32 tiles that are read and written, in two programs"
    assert found.digest == run(first_two_mapped, chip(base, impl), "events").digest


def test_nothing_is_skipped_while_an_mmu_works_on() -> None:
    """Its 1500 moves take the time of 300 programs, and the first two programs the time of some 180."""

    def launches(host: Host, x: Tensor, y: Tensor) -> None:
        first_two_mapped(host, x, y)
        host.launch(doubled, x, y, grid=ROWS)

    found = run(launches, chip("one_pe", "own.Refilling"), "check")
    first, _ = found.launches
    n_before = sum(each.end_ps < 300 * PROGRAM_PS for each in first.programs)
    assert 100 < n_before < ROWS
    assert 0 < found.work.skipped_programs < 2 * ROWS - n_before
    assert found.digest == run(launches, chip("one_pe", "own.Refilling"), "events").digest
