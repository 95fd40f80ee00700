"""The view of stalls: the waits of tiles by reason, and groups of waits that are alike."""

from __future__ import annotations

from msgspec import Struct

from kb_cli.trace.arrange import is_pe
from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.answers.timeline import times
from kb_cli.web.run_timeline import OPS
from kb_cli.web.stall_groups import StallGroup, stall_groups
from kb_cli.web.stall_tables import StallRow
from kb_cli.web.web_request import WebRequest
from kb_messages import KbError


class WebStalls(Struct, frozen=True, kw_only=True):
    """The waits of `tiles` stages of tiles. `reasons` has the columns. `groups` are the ones with the most time of
    `of_groups`, whose waits take `waited_ps`. `pes` and `lines` are the choices of the reader.
    """

    tiles: int
    reasons: list[str]
    rows: list[StallRow]
    groups: list[StallGroup]
    of_groups: int
    waited_ps: int
    pes: list[str]
    lines: list[str]
    notes: list[str]


def stalls(asked: WebRequest) -> WebAnswer:
    """Answers with the waits of the fields `pe`, `line`, and `t0` and `t1`, each of which may be missing."""
    run = asked.run
    timeline = run.timeline
    table = timeline.table(OPS)
    pes = [name for name in dict.fromkeys(place.group for place in table.lanes) if is_pe(name)]
    lines = sorted(set(table.lines))
    for field, known in (("pe", pes), ("line", lines)):
        if field in asked.fields and asked.fields[field] not in known:
            raise KbError(field, repr(asked.fields[field][:80]), "one that has records in the log")
    window = times(asked) if "t0" in asked.fields or "t1" in asked.fields else None
    found = run.stalls
    which = found.which(asked.fields.get("pe"), asked.fields.get("line"), window)
    rows, groups = found.rows(which), stall_groups(found, which)
    used = {reason for row in rows for reason in row.ps}
    return json_answer(
        WebStalls(
            tiles=int(which.sum()),
            reasons=[each.reason for each in found.columns if each.reason in used],
            rows=rows,
            groups=groups.groups,
            of_groups=groups.of,
            waited_ps=groups.ps,
            pes=pes,
            lines=lines,
            notes=timeline.notes,
        )
    )
