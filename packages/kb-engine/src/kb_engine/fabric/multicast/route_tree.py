"""RouteTree: the ways from one memory to several receivers, each link once.

The bytes are copied where ways part. A node has room for all that waits in it, so no branch holds up another one.
"""

from __future__ import annotations

from collections.abc import Sequence

from kb_engine.fabric.link import LinkState
from kb_engine.fabric.paths import Hop
from kb_engine.fabric.sharing.shared_link import SharedLink
from kb_engine.fabric.sharing.stream import SharedHop

Way = tuple[Hop, ...]


class Branch:
    """The links of *way* for copies of *nbytes*, from a memory or from a node where ways part to the next such node.

    `ahead` are the links before the first shared link of the whole way, in order, `shared` is the first shared link of
    this branch, and `lead_ps` the latency of the links before `shared`. *is_behind_shared* says that bytes come over a
    shared link before, at its pace; then no link is `ahead`, and a link that is not shared adds nothing but latency.
    A last link that narrows is left to the receiver.
    """

    __slots__ = ("_loads", "ahead", "lead_ps", "nbytes", "shared")

    def __init__(self, way: Way, nbytes: int, is_behind_shared: bool) -> None:
        self.nbytes = nbytes
        self.ahead: list[tuple[LinkState, int, int]] = []
        self.lead_ps = 0
        self.shared: SharedHop | None = None
        self._loads = [(hop.state, hop.state.rate.ps(nbytes)) for hop in way]
        found: list[tuple[SharedLink, int, int]] = []
        for hop, (state, duration_ps) in zip(way, self._loads, strict=True):
            if hop.narrows:
                continue
            if hop.shared is not None:
                found.append((hop.shared, hop.after_ps, duration_ps))
            elif found:
                link, after_ps, last_ps = found[-1]
                found[-1] = link, after_ps + hop.after_ps, last_ps
            elif is_behind_shared:
                self.lead_ps += hop.after_ps
            else:
                self.ahead.append((state, hop.after_ps, duration_ps))
        for link, after_ps, duration_ps in reversed(found):
            self.shared = SharedHop(link, after_ps, duration_ps, nbytes, self.shared)

    def reserve_ahead(self, head_ps: int, tail_ps: int) -> tuple[int, int]:
        """Reserves the links of the tree ahead of the bytes."""
        for link, after_ps, duration_ps in self.ahead:
            start_ps = max(head_ps, link.free_ps)
            link.free_ps = end_ps = max(start_ps + duration_ps, tail_ps)
            head_ps, tail_ps = start_ps + after_ps, end_ps + after_ps
        return head_ps, tail_ps

    def count(self) -> None:
        """A copy passes: count it on each link."""
        for state, duration_ps in self._loads:
            state.busy_ps += duration_ps
            state.nbytes += self.nbytes


class RouteTree:
    """A branch, and the trees behind the node where it ends; at a receiver's end, the number of the receiver."""

    __slots__ = ("behind", "branch", "receiver")

    def __init__(self, branch: Branch, behind: list[RouteTree], receiver: int) -> None:
        self.branch = branch
        self.behind = behind
        self.receiver = receiver


class TreeBuilder:
    """Makes trees of ways. A branch is made once, because most trees have branches of others."""

    def __init__(self) -> None:
        self._branches: dict[tuple[tuple[int, ...], int, bool], Branch] = {}

    def trees(self, ways: Sequence[Way], nbytes: int) -> list[RouteTree]:
        """The trees from the first node of *ways* for copies of *nbytes*, one for each link that leaves that node.

        Receiver *n* is at the end of `ways[n]`. No way is the begin of another one.
        """
        return self._grow(ways, list(range(len(ways))), 0, nbytes, False)

    def _grow(
        self, ways: Sequence[Way], receivers: list[int], start: int, nbytes: int, is_behind_shared: bool
    ) -> list[RouteTree]:
        by_link = dict[int, list[int]]()
        for number in receivers:
            by_link.setdefault(id(ways[number][start]), []).append(number)
        found = []
        for mine in by_link.values():
            way = ways[mine[0]]
            end = len(way) if len(mine) == 1 else _parting([ways[number] for number in mine], start)
            branch = self._branch(way[start:end], nbytes, is_behind_shared)
            if len(mine) == 1:
                found.append(RouteTree(branch, [], mine[0]))
            else:
                behind = self._grow(ways, mine, end, nbytes, is_behind_shared or branch.shared is not None)
                found.append(RouteTree(branch, behind, -1))
        return found

    def _branch(self, way: Way, nbytes: int, is_behind_shared: bool) -> Branch:
        key = tuple(map(id, way)), nbytes, is_behind_shared
        branch = self._branches.get(key)
        if branch is None:
            branch = self._branches[key] = Branch(way, nbytes, is_behind_shared)
        return branch


def _parting(ways: Sequence[Way], start: int) -> int:
    """The number of the first link from *start* on in which *ways* differ."""
    first, end = ways[0], start
    while all(way[end] is first[end] for way in ways):
        end += 1
    return end
