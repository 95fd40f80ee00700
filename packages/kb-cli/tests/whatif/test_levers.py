"""Levers of finished runs: bounds, measurements, and what bounds the run afterwards."""

from collections.abc import Callable
from fractions import Fraction
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from click.testing import Result
from sampled_cases import sampled

from kb_cli.benchmark import bundled
from kb_cli.run.base.progress import RunProgress
from kb_cli.run.base.result import Policy
from kb_cli.run.records.run_json import read_one_run, write_run
from kb_cli.run.saving.save import record_run
from kb_cli.whatif import lever_chances as chances_module
from kb_cli.whatif.bound import BusyPart, bound_ps
from kb_cli.whatif.chip_levers import ChipLever, Moved, chip_levers, moved
from kb_cli.whatif.lever_chances import TriedLever
from kb_cli.whatif.levers import Levers, levers
from kb_cli.whatif.ran_setup import read_setup
from kb_dataexec import read_log
from kb_dataexec.analysis import LaunchWhere, Where, WhereRow, all_transfers, where
from kb_messages import KbError, Lever
from kb_topology import format_path, loads_topology, parse_path, with_values

Invoke = Callable[..., Result]
HBM = Lever(("hbm: bytes",), "twice", "bandwidth")


def path_of(*rows: tuple[str, str, str, int]) -> Where:
    listed = [WhereRow(line="", block=block, what=what, via=via, ps=ps, segments=1) for block, what, via, ps in rows]
    end_ps = sum(row.ps for row in listed)
    times: dict[str, int] = {"start_ps": 0, "kernels_start_ps": 0, "kernels_end_ps": end_ps, "end_ps": end_ps}
    return Where(launches=[LaunchWhere(launch=0, rows=listed, pes=[], busy={}, hidden={}, ties=0, **times)], missing=[])


PATH = path_of(
    ("host", "call", "launch", 77),
    ("hbm", "bytes", "data", 1001),
    ("hbm", "latency", "data", 30),
    ("pe_gemm", "x", "y", 5),
)


def test_a_bound_is_the_scaled_path_or_the_busiest_block_left_alone() -> None:
    half = [Moved(HBM, Fraction(1, 2))]
    assert bound_ps(PATH, [], half) == 501 + 30 + 5  # 500.5, rounded up; the host is outside the kernels
    assert bound_ps(PATH, [BusyPart("pe_gemm", "GEMM", 700), BusyPart("hbm", "HBM", 1001)], half) == 700
    assert bound_ps(PATH, [BusyPart("pe_gemm", "GEMM", 535)], half) == 536
    both = [*half, Moved(Lever(("hbm",), "twice", "clock"), Fraction(1, 3))]
    assert bound_ps(PATH, [], both) == -(-1001 // 6) + 10 + 5


def test_a_slower_value_makes_no_path_longer_that_others_share() -> None:
    assert bound_ps(PATH, [], [Moved(HBM, Fraction(3))]) == 3003 + 35
    assert bound_ps(PATH, [], [Moved(HBM, Fraction(3), whole=False)]) == 1036


CHIP = bundled.folder("topologies")


def test_the_levers_of_a_chip_stand_in_its_file() -> None:
    topology = loads_topology((CHIP / "one_pe.yaml").read_text(), "one_pe.yaml")
    found = {(each.block, each.field): each for each in chip_levers(topology)}
    assert found["hbm", "bw_gbs"].better == {("cube", "nodes", "hbm", "bw_gbs"): "204.8"}
    assert found["pe_dma", "setup_ns"].better == {("cube", "pe_template", "nodes", "pe_dma", "setup_ns"): "2.5"}
    assert found["pe_gemm", "clock_ghz"].better == {("cube", "pe_template", "nodes", "pe_gemm", "clock_ghz"): "2"}
    links = {each.part: each.better for each in chip_levers(topology) if each.block == "links"}
    assert links == {
        "the links between DMA and XBAR": {("cube", "links", 0, "bw_gbs"): "256"},
        "the links between HBM and XBAR": {("cube", "links", 1, "bw_gbs"): "204.8"},
    }
    assert ("pe_tcm", "dma_bw_gbs") not in found, "a value that is not stated"


def test_meshes_and_links_between_chiplets_are_levers() -> None:
    topology = loads_topology((CHIP / "one_sip.yaml").read_text(), "one_sip.yaml")
    places = {format_path(path) for each in chip_levers(topology) if each.block == "links" for path in each.values}
    assert {"$.sip.cube_mesh.bw_gbs", "$.system.links[0].bw_gbs", "$.io.links[0].bw_gbs"} <= places


def test_a_pulled_lever_knows_its_factor_and_its_company() -> None:
    path, other = ("a", "bw_gbs"), ("b", "bw_gbs")
    alone = ChipLever("hbm", "bw_gbs", HBM, {path: 102.4})
    both = ChipLever("hbm", "bw_gbs", HBM, {path: 102.4, other: 1.0})
    assert moved([alone], {path: 102.4}, {path: 153.6}) == [Moved(HBM, Fraction(2, 3))]
    assert moved([both], {path: 102.4}, {path: 51.2}) == [Moved(HBM, Fraction(2), whole=False)]
    slow = Lever(("hbm: bytes",), "half", "latency")
    assert moved([ChipLever("hbm", "x_ns", slow, {path: 4.0})], {path: 4.0}, {path: 3.0})[0].factor == Fraction(3, 4)


def test_a_block_of_any_name_has_the_levers_of_its_kind(invoke: Invoke, tmp_path: Path) -> None:
    text = (CHIP / "one_pe.yaml").read_text()
    for old, new in (("hbm: {kind", "mem: {kind"), ('"hbm[0]"', '"mem[0]"')):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "chip.yaml").write_text(text)
    options = (*GEMM["serial"][3:], "--topology", tmp_path / "chip.yaml", "--out", tmp_path / "out")
    done = invoke("run", "gemm", *options)
    assert done.exit_code == 0, done.stderr
    tried = {each.name: each for each in levers(next((tmp_path / "out").iterdir())).levers}
    assert tried["Twice the bandwidth of HBM"].set == {"$.cube.nodes.mem.bw_gbs": "204.8"}
    assert all(each.latency_ps is not None and each.latency_ps >= each.bound_ps for each in tried.values())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def ran(invoke: Invoke, runs: Path) -> Callable[..., Path]:
    """The folder of a run, made once."""

    def folder(name: str, *args: Any) -> Path:
        if not (runs / name).exists():
            assert invoke("run", *args, "--levers", "none", "--out", runs / name).exit_code == 0
        return next((runs / name).iterdir())

    return folder


TILES = "tile=64x64x64"
GEMM = {
    "serial": ("gemm", "--topology", "one_pe", "-p", "M=64", "-p", "N=64", "-p", "K=64", "-p", TILES),
    "pipelined": ("gemm", "--topology", "one_pe", "-p", "M=200", "-p", "N=140", "-p", "K=260", "-p", TILES),
    "one output": ("gemm", "--topology", "one_pe", "-p", "M=64", "-p", "N=60", "-p", "K=500", "-p", TILES),
    "contended": ("gemm", "--topology", "one_cube", "-p", "M=200", "-p", "N=140", "-p", "K=260", "-p", TILES),
}


@pytest.fixture(scope="module")
def levers_of_runs() -> dict[Path, Levers]:
    return {}


@pytest.fixture
def every_lever(levers_of_runs: dict[Path, Levers], monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Levers]:
    """The levers of a run with any part of the path, tried once."""
    monkeypatch.setattr(chances_module, "LEAST_SHARE", 1e-9)

    def of(folder: Path) -> Levers:
        if folder not in levers_of_runs:
            levers_of_runs[folder] = levers(folder)
        return levers_of_runs[folder]

    return of


def test_serial_kernels_take_as_long_as_the_bound(
    ran: Callable[..., Path], every_lever: Callable[[Path], Levers]
) -> None:
    found = every_lever(ran("serial", *GEMM["serial"]))
    assert {each.name: each.latency_ps for each in found.levers if "DMA" not in each.name}
    whole = {("pe_gemm", "clock_ghz"), ("pe_cpu", "issue_ns"), ("pe_scheduler", "command_ns")}
    sure = [each for each in found.levers if (each.block, each.field) in whole]
    assert len(sure) == 3
    for each in sure:
        assert each.latency_ps == each.bound_ps == found.latency_ps - each.path_ps // 2, each.name


Place = tuple[int, int, int, int]
"""Component, command, tile and stage of an op."""


class ServiceOrder(NamedTuple):
    """The services of a run in the order in which memories began with them, and in which ports of TCMs did.

    `writes` has the picoseconds of each write that memories had left when they began with its last part. They differ
    when reads interrupt the write at another byte.
    """

    memories: list[Place]
    ports: list[Place]
    writes: dict[Place, int]


def order_of(folder: Path) -> ServiceOrder:
    log = read_log(folder / "log")
    rows = np.sort(all_transfers(log), order=["t_served_ps", "op_id"])
    columns = ("component", "command_seq", "tile_id", "stage_index")
    place: dict[int, Any] = {int(op["op_id"]): tuple(int(op[name]) for name in columns) for op in log.ops}
    name = {int(op["op_id"]): log.strings[op["name"]] for op in log.ops}
    ported = [op for op in log.ops if log.strings[op["name"]] in ("fetch", "store")]
    at_ports = sorted(ported, key=lambda op: (int(op["t_start_ps"]), int(op["op_id"])))
    left = {
        int(row["op_id"]): int(row["t_first_ps"] - row["t_served_ps"])
        for row in rows
        if name[int(row["op_id"])] == "dma_write"
    }
    return ServiceOrder(
        [place[int(row["op_id"])] for row in rows],
        [place[int(op["op_id"])] for op in at_ports],
        {place[op]: ps for op, ps in left.items()},
    )


def changed_run(folder: Path, lever: TriedLever, place: Path) -> int:
    """Run the benchmark of *folder* with *lever* pulled, to the folder *place*. Returns the latency."""
    setup = read_setup(folder).setup
    source = with_values(setup.topology.source, {parse_path(path): text for path, text in lever.set.items()})
    changed = setup._replace(topology=loads_topology(source.text, source.path), log=True)
    return record_run((place, place), changed, Policy.ALL, RunProgress()).result.latency_ps


@pytest.mark.parametrize(
    ("name", "compared", "least"),
    sampled([("serial", 2, 5), ("one output", 2, 5), ("contended", 2, 5), ("contended", 3, 3), ("pipelined", 3, 2)], 3),
)
def test_where_memories_keep_their_order_no_measurement_is_below_its_bound(
    ran: Callable[..., Path],
    every_lever: Callable[[Path], Levers],
    name: str,
    compared: int,
    least: int,
    tmp_path: Path,
) -> None:
    """The order is the first *compared* of ServiceOrder: with or without the bytes at which reads interrupt writes.

    Three runs of five; `nox -s cases` makes all.
    """
    folder = ran(name, *GEMM[name])
    before, found, n_kept = order_of(folder), every_lever(folder), 0
    for number, each in enumerate(found.levers):
        place = tmp_path / str(number)
        latency_ps = changed_run(folder, each, place)
        assert latency_ps == each.latency_ps, "with and without a log"
        if order_of(place)[:compared] == before[:compared]:
            n_kept += 1
            assert latency_ps >= each.bound_ps, each.name
    assert len(found.levers) >= 5
    assert n_kept >= least


def test_a_bound_is_passed_by_time_that_reads_no_longer_wait_for_writes(
    ran: Callable[..., Path], every_lever: Callable[[Path], Levers], tmp_path: Path
) -> None:
    """Twice the bandwidth of the TCM: three writes of output tiles come 24 ns earlier, each while a read is served.

    A FETCH moves two operands of 64 x 64 f16, 16 KiB at 512 bytes a nanosecond, and a STORE one: 16 and 8 ns less than
    before. A read interrupts the write, and 24 ns of its bytes now lie before the read and not behind it. The next read
    waited 12,180 ps for them, and waits no longer. That is all of the difference but what the path has of the port.
    """
    folder = ran("pipelined", *GEMM["pipelined"])
    (lever,) = (each for each in every_lever(folder).levers if (each.block, each.field) == ("pe_tcm", "bw_gbs"))
    place = tmp_path / "changed"
    latency_ps = changed_run(folder, lever, place)
    before, after = order_of(folder), order_of(place)
    assert (before.memories, before.ports) == (after.memories, after.ports)
    assert sum(left_ps != after.writes[op] for op, left_ps in before.writes.items()) >= 3
    waits = [read_waits_ps(each) for each in (folder, place)]
    gone = [waited_ps - waits[1][op] for op, waited_ps in waits[0].items() if waited_ps != waits[1][op]]
    assert gone == [12_180] * 3
    at_ports = [port_ps(each) for each in (folder, place)]
    assert at_ports[0] == lever.path_ps
    assert every_lever(folder).latency_ps - latency_ps == at_ports[0] - at_ports[1] + sum(gone)
    assert lever.bound_ps - latency_ps == 34_540


def read_waits_ps(folder: Path) -> dict[int, int]:
    """How long each read waited for its memory, by op."""
    log = read_log(folder / "log")
    reads = {int(op["op_id"]) for op in log.ops if log.strings[op["name"]] == "dma_read"}
    rows = (row for row in all_transfers(log) if int(row["op_id"]) in reads)
    return {int(row["op_id"]): int(row["t_served_ps"] - row["t_arrived_ps"]) for row in rows}


def port_ps(folder: Path) -> int:
    """The part of the critical path in which tiles went through the TCM's port."""
    (launch,) = where(read_log(folder / "log")).launches
    return sum(row.ps for row in launch.rows if row.block == "pe_fetch_store")


def test_the_most_gain_comes_first_and_small_parts_are_not_tried(ran: Callable[..., Path]) -> None:
    folder = ran("pipelined", *GEMM["pipelined"])
    found = levers(folder)
    gains = [each.gain for each in found.levers]
    assert gains == sorted(gains, key=lambda gain: -(gain or 0))
    assert gains[0] is not None
    assert gains[0] > 0.02
    assert all(each.share >= 0.02 for each in found.levers)
    largest = max(found.levers, key=lambda each: each.path_ps)
    assert levers(folder) == found
    assert levers(folder, most=1).levers == [largest]


def test_without_time_nothing_is_measured(ran: Callable[..., Path]) -> None:
    folder = ran("pipelined", *GEMM["pipelined"])
    (folder / "levers.json").unlink(missing_ok=True)
    found = levers(folder, within_s=0.0)
    assert {each.latency_ps for each in found.levers} == {None}
    assert found.levers[0].sentence.endswith(" at best; not measured.")


def test_a_measurement_ends_when_the_time_is_over(ran: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ran("pipelined", *GEMM["pipelined"])
    (folder / "levers.json").unlink(missing_ok=True)
    monkeypatch.setattr("kb_cli.whatif.budget.perf_counter", iter([0.0, 0.0, *repeat(60.0, 99)]).__next__)
    found = levers(folder)
    assert {each.latency_ps for each in found.levers} == {None}


def test_a_lever_in_a_sentence() -> None:
    name, bound = "Twice the bandwidth of HBM", 300_000_000
    lever = TriedLever(name=name, block="hbm", field="bw_gbs", set={}, path_ps=1, share=0.5, bound_ps=bound)
    measured = {"latency_ps": 327_506_000, "gain": 0.156, "then": "GEMM", "then_busy": 0.9}
    found = msgspec.structs.replace(lever, **measured)
    assert found.sentence == "Twice the bandwidth of HBM: 327.506 us (-15.6 %); then GEMM bounds it."
    slower = msgspec.structs.replace(found, gain=-0.01, then_busy=0.5)
    assert (
        slower.sentence == "Twice the bandwidth of HBM: 327.506 us (+1.0 %); then no block is busy 60.0 % of the time."
    )
    assert lever.sentence == "Twice the bandwidth of HBM: 300.000 us at best; not measured."


def test_a_kernel_that_asks_for_values_is_measured_too(invoke: Invoke, tmp_path: Path) -> None:
    assert invoke("run", "power_iteration", "--topology", "one_pe", "--out", tmp_path / "out").exit_code == 0
    found: Levers = levers(next((tmp_path / "out").iterdir()), most=1)
    assert found.levers[0].latency_ps is not None


def other_version(folder: Path, **results: Any) -> None:
    """Let run.json say that another version of kb made the run."""
    plain = msgspec.to_builtins(read_one_run(folder))
    plain["versions"]["kb-engine"] = "0.0.1"
    plain["results"] |= results
    write_run(folder, plain)


def test_a_run_of_another_version_of_kb_has_to_take_the_same_time(invoke: Invoke, tmp_path: Path) -> None:
    invoke("run", *GEMM["serial"], "--out", tmp_path / "out")
    folder = next((tmp_path / "out").iterdir())
    before_ps = read_one_run(folder).results.latency_ps
    other_version(folder)
    assert levers(folder, most=1).latency_ps == before_ps
    other_version(folder, latency_ps=5)
    with pytest.raises(KbError) as error:
        levers(folder)
    got = f"{before_ps} ps for the unchanged chip with this version of kb"
    assert str(error.value) == f"{folder}: got {got}, needs 5 ps, as the run took; run it again"


def test_a_run_without_a_log_has_no_levers(invoke: Invoke, tmp_path: Path) -> None:
    invoke("run", *GEMM["serial"], "--no-log", "--out", tmp_path / "out")
    folder = next((tmp_path / "out").iterdir())
    with pytest.raises(KbError) as error:
        levers(folder)
    assert str(error.value) == f"{folder}: got a run without an op log, needs one; run it again without --no-log"
