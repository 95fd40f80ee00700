"""The frame of a latency: the PEs that worked, how they issue commands, copies of operands, and what is left out."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

AND = " and "
"""Stands between the ways of issue of PEs that differ."""


class Frame(Struct, frozen=True, kw_only=True):
    """The circumstances of a latency.

    `pes_used` of the `pes` PEs of the chip ran a program. `issue` is how their PE_CPUs issue commands: `blocking`,
    `scoreboard` or `decoupled`, or several of them where the PEs differ. `replicas` has the number of copies of each
    tensor that was placed several times, and `replica_nbytes` the bytes of all copies but the first ones. `slow` has
    the factor of each slow PE that ran a program, by id, and is missing where none did.
    """

    pes_used: int
    pes: int
    issue: str
    replicas: dict[str, int] = {}
    replica_nbytes: int = 0
    slow: dict[str, float] | UnsetType = UNSET
