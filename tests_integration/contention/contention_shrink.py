"""Makes a failing case small: fewer jobs, links and nodes, rounder numbers, as long as it still fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice

from contention_bursts import overhead_ps
from contention_cases import Case
from contention_chips import PREFIX, Chip
from contention_engine import Job

from kb_messages import KbError
from kb_topology import Router


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The smallest case that greedy steps find from *case*, which fails. *fails* is asked about every step.

    After a step that succeeds, the search goes on with the steps behind it. It begins anew only at the end, because a
    step that failed once mostly fails again.
    """
    is_smaller = True
    while is_smaller:
        is_smaller, tried = False, 0
        while (smaller := next(islice(steps(case), tried, None), None)) is not None:
            if smaller != case and is_valid(smaller) and fails(smaller):
                case, is_smaller = smaller, True
            else:
                tried += 1
    return case


def is_valid(case: Case) -> bool:
    """Whether links still lead from and to both ends of every job; errors of the chip itself are no failures."""
    if not case.jobs:
        return False
    try:
        router = Router(case.topology.graph, overhead_ps)
        for job in case.jobs:
            router.route(PREFIX + job.src, PREFIX + job.dst)
            router.route(PREFIX + job.dst, PREFIX + job.src)
    except KbError:
        return False
    return True


def steps(case: Case) -> Iterator[Case]:
    """Cases that are simpler than *case*, the boldest first."""
    chip, jobs = case
    half = len(jobs) // 2
    if half:
        yield Case(chip, jobs[half:])
        yield Case(chip, jobs[:half])
    for at in range(len(jobs)):
        yield Case(chip, jobs[:at] + jobs[at + 1 :])
    yield unused_left_out(case)
    for at in range(len(chip.links)):
        yield Case(chip._replace(links=chip.links[:at] + chip.links[at + 1 :]), jobs)
    for smaller in rounder_chips(chip):
        yield Case(smaller, jobs)
    for at, job in enumerate(jobs):
        for simpler in simpler_jobs(job):
            yield Case(chip, (*jobs[:at], simpler, *jobs[at + 1 :]))


def simpler_jobs(job: Job) -> Iterator[Job]:
    for nbytes in (job.nbytes // 2, round_down(job.nbytes)):
        if 0 < nbytes < job.nbytes:
            yield job._replace(nbytes=nbytes)
    if job.offset:
        yield job._replace(offset=0)
    for not_before_ps in (0, job.not_before_ps // 2, round_down(job.not_before_ps)):
        if not_before_ps < job.not_before_ps:
            yield job._replace(not_before_ps=not_before_ps)


def round_down(number: int) -> int:
    """*number* with its first digit alone: 4711 is 4000."""
    text = str(number)
    return int(text[0] + "0" * (len(text) - 1))


def rounder_chips(chip: Chip) -> Iterator[Chip]:
    for field in ("wire_ps_per_mm", "setup_ns"):
        if getattr(chip, field):
            yield chip._replace(**{field: 0})
    if chip.outstanding > 1:
        yield chip._replace(outstanding=1)
    for at, forwarder in enumerate(chip.forwarders):
        if forwarder.overhead_ns:
            yield chip._replace(forwarders=put(chip.forwarders, at, forwarder._replace(overhead_ns=0)))
    for at, memory in enumerate(chip.memories):
        for simpler in (
            memory._replace(ports="shared" if memory.ports else ""),
            memory._replace(latency_ns=0),
            *(memory._replace(bw_gbs=bw_gbs) for bw_gbs in rounder(memory.bw_gbs) if memory.bw_gbs),
        ):
            if simpler != memory:
                yield chip._replace(memories=put(chip.memories, at, simpler))
    for at, link in enumerate(chip.links):
        for simpler_link in (
            link._replace(length_mm=0),
            *(link._replace(bw_gbs=bw_gbs) for bw_gbs in rounder(link.bw_gbs)),
        ):
            if simpler_link != link:
                yield chip._replace(links=put(chip.links, at, simpler_link))


def rounder(bw_gbs: float) -> Iterator[float]:
    """Bandwidths that are easier to compute with, each allowed once, so that the search ends."""
    ladder = (1000, 100, 50, 25)
    yield from ladder[: ladder.index(bw_gbs)] if bw_gbs in ladder else ladder


def put(items: tuple, at: int, item: object) -> tuple:  # type: ignore[type-arg]
    return (*items[:at], item, *items[at + 1 :])


def unused_left_out(case: Case) -> Case:
    """*case* without nodes that have no links, and with PEs numbered from 0."""
    chip, jobs = case
    linked = {end for link in chip.links for end in (link.src, link.dst)}
    linked |= {end for job in jobs for end in (job.src, job.dst)}
    number = {}
    for what in ("pe", "hbm", "sram"):
        used = sorted({int(found[1]) for name in linked if (found := re.match(rf"{what}(\d+)", name))})
        number |= {f"{what}{old}": f"{what}{new}" for new, old in enumerate(used)}

    def renamed(name: str) -> str:
        head, dot, tail = name.partition(".")
        return number.get(head, head) + dot + tail

    def count(what: str) -> int:
        return sum(name.startswith(what) for name in number)

    kinds = (memory._replace(count=count(memory.space)) for memory in chip.memories)
    smaller = chip._replace(
        n_pes=max(1, count("pe")),
        forwarders=tuple(each for each in chip.forwarders if each.name in linked),
        memories=tuple(memory for memory in kinds if memory.count),
        links=tuple(link._replace(src=renamed(link.src), dst=renamed(link.dst)) for link in chip.links),
    )
    return Case(smaller, tuple(job._replace(src=renamed(job.src), dst=renamed(job.dst)) for job in jobs))
