"""Checks of blocks that serve stages: each token once, in order, at whole picoseconds, and kept while blocked."""

from __future__ import annotations

from typing import Any

from kb_engine.testing.line import N_TILES, Line, route_of
from kb_engine.testing.subject import Subject
from kb_messages import StageType

OPENS_AFTER_PS = 10_000_000


def check_serves_each_once(subject: Subject) -> None:
    """Every tile leaves each stage of the block once, in the order of arrival, and completes."""
    line = Line(subject)
    line.run()
    _check_all_left(line)


def check_whole_picoseconds(subject: Subject) -> None:
    """Services begin and end at ints."""
    line = Line(subject)
    line.run()
    for tile, kind, *times in line.outs:
        wrong = [time for time in times if type(time) is not int]
        if wrong:
            fix = "round up once, to whole picoseconds"
            subject.fail(kind.name, f"tile {tile} at {wrong[0]!r}", "times that are ints of picoseconds", fix)


def check_times_repeat(subject: Subject) -> None:
    """Two blocks with equal attributes and equal work end it at equal times."""
    lines = Line(subject), Line(subject)
    for line in lines:
        line.run()
    for one, two in zip(*(line.outs for line in lines), strict=False):
        if one != two:
            got = f"tile {one[0]} leaving at {one[-1]}, and at {two[-1]} from a fresh instance"
            subject.fail(one[1].name, got, "the same times", "let them follow from the Spec and the work alone")


def check_keeps_its_lead(subject: Subject) -> None:
    """No transfer starts sooner after its call than `lead_ps` says."""
    line = Line(subject)
    line.run()
    block: Any = line.block
    lead_ps = subject.call("lead_ps", lambda: block.lead_ps)
    if type(lead_ps) is not int or lead_ps < 0:
        subject.fail("lead_ps", repr(lead_ps), "an int >= 0", "round down, to whole picoseconds")
    least_ps = min(block.context.fabric.leads_ps, default=lead_ps)
    if least_ps < lead_ps:
        got = f"a transfer that starts {least_ps} ps after its call"
        subject.fail("lead_ps", got, f"the {lead_ps} ps that it promises, or more", "promise less")


def check_keeps_to_its_outstanding(subject: Subject) -> None:
    """No more reads, and no more writes, are under way at once than `outstanding` says."""
    line = Line(subject)
    line.run()
    block: Any = line.block
    outstanding = subject.call("outstanding", lambda: block.outstanding)
    if type(outstanding) is not int or outstanding < 1:
        subject.fail("outstanding", repr(outstanding), "an int >= 1", "let it follow from the Spec")
    for kind in (each for each in (StageType.DMA_READ, StageType.DMA_WRITE) if each in block.serves):
        issued_ps = subject.call("issued_ps", block.issued_ps, kind)
        if type(issued_ps) is not int:
            subject.fail(f"issued_ps({kind.name})", repr(issued_ps), "an int", "round up once, to whole picoseconds")
    fabric = block.context.fabric
    for most, name in ((fabric.most_reads, "reads"), (fabric.most_writes, "writes")):
        if most > outstanding:
            got = f"{most} {name} under way at once"
            subject.fail(
                "outstanding", got, f"the {outstanding} that it declares, or fewer", "start one for each token"
            )


def check_keeps_what_is_blocked(subject: Subject, stage_type: StageType) -> None:
    """The block keeps its token while the queue behind *stage_type* is full, and goes on afterwards."""
    behind = stub_behind(subject, stage_type)
    assert behind is not None
    line = Line(subject, shut=behind)
    line.run()
    _check_is_kept(line, stage_type, behind)
    line.clock.call_at(line.clock.now_ps + OPENS_AFTER_PS, line.latch.open, None)
    line.run()
    _check_all_left(line)


def stub_behind(subject: Subject, stage_type: StageType) -> StageType | None:
    """The stage after *stage_type*, if another block serves that stage."""
    route = route_of(subject)
    later = route[route.index(stage_type) + 1 :]
    return later[0] if later and later[0] not in subject.impl.serves else None


def _check_is_kept(line: Line, stage_type: StageType, behind: StageType) -> None:
    server, full = line.server(stage_type), line.server(behind)
    left = line.left(stage_type)
    waits = len(full.queue) + (full.token is not None)
    fix = "call finish and leave the rest to the queues"
    if len(full.queue) > full.depth:
        got = f"{len(full.queue)} tokens in the next queue of {full.depth}"
        line.subject.fail(stage_type.name, got, "no token put into a full queue", fix)
    if server.served > len(left) + server.outstanding:
        got = f"{server.served - len(left)} tokens served that cannot leave"
        line.subject.fail(stage_type.name, got, f"at most the {server.outstanding} it keeps", fix)
    if len(left) != waits:
        got = f"{len(left)} tokens gone and {waits} in the next queue"
        line.subject.fail(stage_type.name, got, "tokens kept while the next queue is full", fix)


def _check_all_left(line: Line) -> None:
    """Each tile has left once, and in order. Transfers that overlap may end their tiles in another order."""
    for stage_type, server in line.block.servers.items():
        left = line.left(stage_type)
        missing = [tile for tile in range(N_TILES) if tile not in left]
        if missing:
            got = f"tile {missing[0]} of {N_TILES} never finished, and nothing left to happen"
            line.subject.fail(stage_type.name, got, "each token finished once", "call finish for every token")
        ends_tiles = server.outstanding > 1 and stage_type is line.route[-1]
        if not ends_tiles and left != list(range(N_TILES)):
            got = f"tiles leaving in the order {', '.join(map(str, left))}"
            line.subject.fail(stage_type.name, got, "the order in which they came", "serve first come, first served")
    if line.completed != 1:
        line.subject.fail("begin", f"{line.completed} completions", "one, by the last stage", "leave it to the base")
