"""The frame of a finished simulation: the PEs that ran programs, how they issue, slow ones, and copies of tensors."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET

from kb_cli.run.base.frame import AND, Frame
from kb_engine import Copies, Engine, LaunchResult
from kb_engine.block import CommandIssuer


def frame_of(engine: Engine, launches: Iterable[LaunchResult], copies: Iterable[Copies]) -> Frame:
    """Returns the frame of *launches* on the chip of *engine*, whose host placed *copies* of tensors.

    A PE that was a target of a launch, and took no program of its grid, is not used.
    """
    used: set[str] = set()
    for each in launches:
        used.update((program.pe_id for program in each.programs) if each.grid else each.pe_end_ps)
    counts: dict[str, int] = {}
    nbytes = 0
    for each_copy in copies:
        counts[each_copy.name] = max(each_copy.count, counts.get(each_copy.name, 0))
        nbytes += (each_copy.count - 1) * each_copy.nbytes
    modes = {issue_of(engine.pes[pe_id].cpu) for pe_id in engine.pes if pe_id in used}
    return Frame(
        pes_used=len(used),
        pes=len(engine.pes),
        issue=AND.join(sorted(modes)),
        replicas=counts,
        replica_nbytes=nbytes,
        slow={pe_id: factor for pe_id, factor in engine.topology.slow.items() if pe_id in used} or UNSET,
    )


def issue_of(cpu: CommandIssuer) -> str:  # type: ignore[type-arg]  # of any attributes
    """Returns how *cpu* issues commands, under the name that the built-in PE_CPU has for it."""
    if cpu.engine_queue_depth is not None:
        return "decoupled"
    return "scoreboard" if cpu.issues_ahead else "blocking"
