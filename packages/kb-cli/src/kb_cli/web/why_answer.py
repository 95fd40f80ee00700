"""Why a service ended only then: what it waited for, and the chain of causes back to the start of its program."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.run_timeline import OPS
from kb_cli.web.slice_answer import ShownSlice, shown_slice
from kb_cli.web.web_request import WebRequest
from kb_dataexec.analysis import PathColumns

_PAGE: Final = 200
"""Links of a chain in one answer."""


class WaitedFor(Struct, frozen=True, kw_only=True):
    """What an op waited for before it started, or before its tile left: the edge, and an op, None for no op."""

    via: str
    op: int | None


class ChainLink(Struct, frozen=True, kw_only=True):
    """A segment of a chain: `block` did `what` from `t0_ps` to `t1_ps`, and held up what came next by `via`."""

    t0_ps: int
    t1_ps: int
    pe: str
    block: str
    what: str
    line: str
    via: str
    op: int | None


class ChainShare(Struct, frozen=True, kw_only=True):
    """The picoseconds of the whole chain in which `block` did `what`."""

    block: str
    what: str
    ps: int


class WhyThen(Struct, frozen=True, kw_only=True):
    """The chain of the service `shown`, the latest link first, from the number `skip` on; it has `count` links.

    It begins at `from_ps`, with its program. `shares`, the largest first, add up to the end of the service.
    """

    shown: ShownSlice
    start: WaitedFor
    left: WaitedFor
    from_ps: int
    count: int
    skip: int
    links: list[ChainLink]
    shares: list[ChainShare]


def why(asked: WebRequest) -> WebAnswer:
    """The chain of the field `op`, some links of it from `skip` on."""
    timeline, op = asked.run.timeline, asked.whole("op", 0, 2**62)
    shown = shown_slice(timeline, OPS, timeline.row_of(op))
    causes, ids = timeline.causes, np.array([op])
    (start,), (left,) = causes.holders(ids, "start"), causes.holders(ids, "left")
    chain = timeline.chain(op)
    skip = asked.whole("skip", 0, len(chain.start_ps)) if "skip" in asked.fields else 0
    return json_answer(
        WhyThen(
            shown=shown,
            start=WaitedFor(via=start.via, op=None if start.op_id < 0 else start.op_id),
            left=WaitedFor(via=left.via, op=None if left.op_id < 0 else left.op_id),
            from_ps=int(chain.start_ps[0]) if len(chain.start_ps) else shown.t0_ps,
            count=len(chain.start_ps),
            skip=skip,
            links=_links(chain, skip),
            shares=_shares(chain),
        )
    )


def _links(chain: PathColumns, skip: int) -> list[ChainLink]:
    last = len(chain.start_ps) - skip
    rows = slice(max(last - _PAGE, 0), last)
    columns = (chain.start_ps, chain.end_ps, chain.pe, chain.block, chain.what, chain.line, chain.via, chain.op_id)
    strings = chain.strings
    found = [
        ChainLink(
            t0_ps=start,
            t1_ps=end,
            pe=strings[pe],
            block=strings[block],
            what=strings[what],
            line=strings[line],
            via=strings[via],
            op=None if op < 0 else op,
        )
        for start, end, pe, block, what, line, via, op in zip(
            *(column[rows].tolist() for column in columns), strict=True
        )
    ]
    return found[::-1]


def _shares(chain: PathColumns) -> list[ChainShare]:
    keys, number = np.unique(np.stack((chain.block, chain.what), axis=1), axis=0, return_inverse=True)
    spent = np.zeros(len(keys), np.int64)
    np.add.at(spent, number.reshape(-1), chain.end_ps - chain.start_ps)
    found = [
        ChainShare(block=chain.strings[block], what=chain.strings[what], ps=ps)
        for (block, what), ps in zip(keys.tolist(), spent.tolist(), strict=True)
    ]
    return sorted(found, key=lambda each: (-each.ps, each.block, each.what))
