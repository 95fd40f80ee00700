"""Where the time of programs that wait for each other went: nothing is unknown. `nox -s cases` tries more programs."""

import random
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampled_cases import sampled

from kb_dataexec import OpLog

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[1] / "benchmarks" / "validation")
    patch.syspath_prepend(Path(__file__).parent / "attribution")
    talks, laws, log_windows = map(import_module, ("random_talks", "attribution_laws", "log_windows"))


def chip(seed: int) -> tuple[str, int]:
    """The text of a chip by *seed*, and the depth of its queues."""
    rng = random.Random(seed)
    text, depth = (talks.TOPOLOGIES / "one_cube.yaml").read_text(encoding="utf-8"), rng.choice((1, 2, 3))
    times = f"doorbell_ns: {rng.choice((0, 2, 7.5))}, credit_ns: {rng.choice((0, 2, 30))}"
    for old, new in (
        ("builtin.pe_cpu", f"builtin.pe_cpu, issue: {rng.choice(('blocking', 'scoreboard', 'decoupled'))}"),
        ("issue_ns: 4", f"issue_ns: {rng.choice((0, 4))}"),
        ("depth: 3, doorbell_ns: 2, credit_ns: 2", f"depth: {depth}, {times}"),
        ("builtin.pe_dma", f"builtin.pe_dma, outstanding: {rng.choice((1, 2))}"),
    ):
        assert old in text
        text = text.replace(old, new)
    return text, depth


@pytest.mark.parametrize("seed", sampled(range(60), 4))
def test_every_instant_has_a_cause(seed: int) -> None:
    text, depth = chip(seed)
    talk = talks.draw(seed, (2, 3, 8)[seed % 3], depth, (5, 20, 60)[seed // 3 % 3])
    log = talks.log_of(text, talk, 1 + seed % 2)
    laws.check_laws(log)
    log_windows.check(log, 4)


@pytest.mark.parametrize("name", ["one_sip", "four_sip", "devices/blackhole", "devices/h100"])
def test_every_instant_has_a_cause_on_chips_of_all_sizes(name: str) -> None:
    """On the devices, PE_CPU issues commands in no time."""
    talk = talks.draw(8, 4, 2, 25)
    talk = talk._replace(steps=[step for step in talk.steps if step[1][0] != "composite"])
    log = talks.log_of((talks.TOPOLOGIES / f"{name}.yaml").read_text(encoding="utf-8"), talk)
    laws.check_laws(log)
    log_windows.check(log, 4)


def test_a_program_that_began_late_is_a_cause() -> None:
    """PE 4 starts up three times as slowly, and programs that send to it wait until it has begun."""
    text = (talks.TOPOLOGIES / "one_cube.yaml").read_text(encoding="utf-8")
    text = text.replace("issue_ns: 4", "issue_ns: 4, startup_ns: 300") + "slow: {pe4: 3}\n"
    for seed in (3, 5, 13):
        log = talks.log_of(text, talks.draw(seed, 2, 2, 25))
        laws.check_laws(log)
        log_windows.check(log, 4)
        waits = log.tables["waits"]
        assert (waits["by_seq"] < 0).any()


def test_each_reason_to_wait_is_on_a_path_of_a_pe() -> None:
    text, depth = chip(4)
    found = laws.check_laws(talks.log_of(text, talks.draw(4, 3, depth, 90)))
    rows = [row for launch in found.launches for pe in launch.pes for row in pe.rows]
    assert {row.via for row in rows if row.what == "waits for other PEs"} >= {"message", "credit", "signal", "barrier"}


def test_a_doorbell_may_ring_in_a_later_window_than_the_end_of_its_write() -> None:
    """A doorbell takes longer than the way of the acknowledgement, so the write is over when the kernel goes on."""
    text = (talks.TOPOLOGIES / "one_cube.yaml").read_text(encoding="utf-8").replace("doorbell_ns: 2", "doorbell_ns: 99")
    for n in range(1, 6):
        log_windows.check(talks.log_of(text, talks.draw(0, 3, 3, 20)), n)


LEVERS = {
    "set-up": ("setup_ns: 5", "setup_ns: 5.001", ("pe_dma", "setup")),
    "memory": ("latency_ns: 45", "latency_ns: 45.001", ("hbm", "latency")),
    "decode": ("command_ns: 8", "command_ns: 8.001", ("pe_scheduler", "decode")),
    "issue": ("issue_ns: 4", "issue_ns: 4.001", ("pe_cpu", "issue")),
    "doorbell": ("doorbell_ns: 2", "doorbell_ns: 2.001", ("pe_queue", "doorbell")),
    "credit": ("credit_ns: 2", "credit_ns: 2.001", ("pe_queue", "credit")),
}
"""What a topology says, what makes a cost 1 ps longer, and the block and the work of its segments."""


@pytest.mark.parametrize("seed", sampled(range(60), 3))
def test_a_longer_cost_delays_the_end_by_its_segments(seed: int) -> None:
    depth, issue = 1 + seed // 3 % 3, ("blocking", "scoreboard", "decoupled")[seed % 3]
    text = (talks.TOPOLOGIES / "one_cube.yaml").read_text(encoding="utf-8")
    text = text.replace("builtin.pe_cpu", f"builtin.pe_cpu, issue: {issue}").replace("depth: 3", f"depth: {depth}")
    talk = talks.draw(seed, 2 + seed % 2, depth, 20)
    log = talks.log_of(text, talk)
    (before,) = laws.check_laws(log).launches
    if before.ties or [row for row in before.rows if row.what in ("busy with others", "shared")]:
        return  # the way not taken may be longer afterwards
    for name, (old, new, place) in LEVERS.items():
        assert old in text
        longer = talks.log_of(text.replace(old, new), talk)
        if turns_of(longer) != turns_of(log):
            continue  # two requests that came within some picoseconds of each other were served in the other order
        (after,) = laws.check_laws(longer).launches
        count = sum(row.segments for row in before.rows if (row.block, row.what) == place)
        assert latency_ps(after) - latency_ps(before) == count, name


def turns_of(log: OpLog) -> list[tuple[int, ...]]:
    """The order of the services of each block, and the request before each request at a memory that waited."""
    ops, transfers = log.ops, log.table("transfers")
    order = np.lexsort((ops["op_id"], ops["t_start_ps"], ops["component"]))
    served = zip(ops["component"][order].tolist(), ops["op_id"][order].tolist(), strict=True)
    return [*served, *sorted(zip(transfers["op_id"].tolist(), transfers["behind_op"].tolist(), strict=True))]


def latency_ps(launch: Any) -> int:
    return int(launch.kernels_end_ps - launch.kernels_start_ps)
