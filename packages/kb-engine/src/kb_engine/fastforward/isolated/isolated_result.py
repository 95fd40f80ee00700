"""IsolatedResult: all that came of a command that ran apart, relative to its begin."""

from __future__ import annotations

from typing import NamedTuple

from kb_dataexec.log.compressed import CompressedTables
from kb_messages import Place

FlowCount = tuple[int, int, int, tuple[int, int], tuple[int, int]]
"""The number of the leg; bytes; transfers; and how long a read and a write take that meet nobody, as far as the op log
has a row of one, before the command and after."""


class IsolatedResult(NamedTuple):
    """What a command came to, in the terms of its footprint.

    Numbers are those of the footprint. `served` has a server, the picoseconds of its services, and their number;
    `requested` a memory, the picoseconds of its requests, and the bytes read and written. `ports_free` has a port of a
    memory, and `links_free` a link, with the picoseconds after the begin at which it is free again. `flows` has the
    transfers. `moved` are the pieces that lie in no slot, and `firsts` the first slots of the command's cuts, on which
    `moved` depends. `rows` is None without an op log.
    """

    duration_ps: int
    served: tuple[tuple[int, int, int], ...]
    requested: tuple[tuple[int, int, int, int], ...]
    ports_free: tuple[tuple[int, int], ...]
    links_free: tuple[tuple[int, int], ...]
    flows: tuple[FlowCount, ...]
    moved: dict[Place, dict[int, int]]
    firsts: tuple[int, ...]
    rows: CompressedTables | None
