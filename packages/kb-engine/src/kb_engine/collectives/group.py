"""Group: the programs that take part in a collective, with their order around the chip and their levels.

Design: docs/design/messages.md
"""

from __future__ import annotations

from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any, Protocol

from kb_engine.collectives.sizes import Sizes
from kb_messages import KernelError

if TYPE_CHECKING:
    from kb_engine.collectives.estimate import Estimate


class ChoosesAlgorithms(Protocol):
    """Chooses the algorithm of `auto`."""

    def choose(self, group: Group, call: str, *facts: Any) -> str:
        """The algorithm for *call* with *facts*: its sizes, and whether operand and result lie in TCM."""

    def estimate(
        self, group: Group, call: str, algorithm: str, sizes: Sizes, in_tcm: tuple[bool, bool], root: int
    ) -> Estimate | None:
        """The estimate of *call* by *algorithm*."""


class Group:
    """Programs of a launch that take part in a collective. `Host.group` makes a group from PEs of a chip.

    `members` are the numbers of the programs: rank r is program `members[r]`. `pes` are the numbers of the PEs of the
    ranks. `ring` has the ranks in their order around the chip, cube by cube, and `cubes` has the ranks of each cube in
    that order. `slot_nbytes` is the most bytes of TCM that a rank lends for messages of a collective, and `depth` is
    the least number of slots of a channel. `chooser` estimates the times of collectives.
    """

    def __init__(
        self,
        members: tuple[int, ...],
        pes: tuple[int, ...],
        cubes: tuple[tuple[int, ...], ...],
        slot_nbytes: int,
        depth: int,
        chooser: ChoosesAlgorithms,
    ) -> None:
        self.members = members
        self.pes = pes
        self.cubes = cubes
        self.slot_nbytes = slot_nbytes
        self.depth = depth
        self.chooser = chooser
        self._ranks = {program: rank for rank, program in enumerate(members)}
        self._chosen: dict[tuple[Any, ...], str] = {}

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        return f"<Group of {len(self)} ranks in {len(self.cubes)} cubes>"

    @cached_property
    def ring(self) -> tuple[int, ...]:
        """The ranks in their order around the chip."""
        return tuple(rank for cube in self.cubes for rank in cube)

    @cached_property
    def positions(self) -> dict[int, int]:
        """The place of each rank in `ring`."""
        return {rank: place for place, rank in enumerate(self.ring)}

    @cached_property
    def nodes(self) -> tuple[tuple[int, ...], ...]:
        """The ranks in sets of equal size, each of ranks of one cube, in the order of `ring`: the lower level of
        `two_level`.

        The size is the greatest common divisor of the numbers of ranks in the cubes.
        """
        size = gcd(*map(len, self.cubes))
        return tuple(cube[at : at + size] for cube in self.cubes for at in range(0, len(cube), size))

    @property
    def has_two_levels(self) -> bool:
        """Whether there are several `nodes` of several ranks."""
        return 1 < len(self.nodes) < len(self)

    def rank(self, tl: Any) -> int:
        """The rank of the program of *tl*. Raises KernelError for a program outside of the group."""
        tl.leave("takes part in a collective")
        found = self._ranks.get(int(tl.program_id()))
        if found is None:
            got = f"a collective in program {tl.program_id()}, which is no member of {self!r}"
            raise KernelError("a collective", got, "a member of the group", "make the group of all PEs of the launch")
        return found

    def estimate(
        self, call: str, algorithm: str, sizes: Sizes, in_tcm: tuple[bool, bool] = (False, False), root: int = 0
    ) -> Estimate:
        """The estimated times of *call* by *algorithm*, where nothing else uses the chip.

        *in_tcm* says whether the operand, and the result, of a rank is a value in TCM, and not in memory near the PE.
        """
        found = self.chooser.estimate(self, call, algorithm, sizes, in_tcm, root)
        assert found is not None, "there is no limit"
        return found

    def chosen(self, call: str, *facts: Any) -> str:
        """The algorithm that `auto` takes for *call* of so many elements. Every rank gets the same answer."""
        key = call, *facts
        if key not in self._chosen:
            self._chosen[key] = self.chooser.choose(self, call, *facts)
        return self._chosen[key]
