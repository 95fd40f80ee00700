"""RouteTree: the ways from one memory to several receivers, each link once.

The bytes are copied where ways part. A node has room for all that waits in it, so no branch holds up another one.
"""

from __future__ import annotations

from collections.abc import Sequence

from kb_engine.fabric.paths import Flow, Hop

Way = tuple[Hop, ...]


class Branch:
    """The links of *way* for copies of *nbytes*, from a memory or from a node where ways part to the next such node.

    `shared` is the first shared link, and `lead_ps` the latency of the links before it. Bytes that come straight from
    the memory reserve these links. Bytes that have come over a shared link, at its pace, pay the latency alone. A last
    link that narrows is left to the receiver.
    """

    __slots__ = ("_loads", "lead_ps", "nbytes", "reserve_ahead", "shared")

    def __init__(self, way: Way, nbytes: int) -> None:
        flow = Flow([*way], nbytes, nbytes)
        flow.find_passing()
        self.nbytes = nbytes
        self.shared = flow.shared
        self.reserve_ahead = flow.reserve_ahead
        self.lead_ps = sum([after_ps for _, after_ps, _ in flow.ahead])
        self._loads = [(hop.state, hop.state.rate.ps(nbytes)) for hop in way]

    def count(self) -> None:
        """A copy passes: count it on each link."""
        for state, duration_ps in self._loads:
            state.count(duration_ps, self.nbytes)


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
        self._branches: dict[tuple[tuple[int, ...], int], Branch] = {}

    def trees(self, ways: Sequence[Way], nbytes: int) -> list[RouteTree]:
        """The trees from the first node of *ways* for copies of *nbytes*, one for each link that leaves that node.

        Receiver *n* is at the end of `ways[n]`. No way is the begin of another one.
        """
        return self._grow(ways, list(range(len(ways))), 0, nbytes)

    def _grow(self, ways: Sequence[Way], receivers: list[int], start: int, nbytes: int) -> list[RouteTree]:
        by_link = dict[int, list[int]]()
        for number in receivers:
            by_link.setdefault(id(ways[number][start]), []).append(number)
        found = []
        for mine in by_link.values():
            way = ways[mine[0]]
            end = len(way) if len(mine) == 1 else _parting([ways[number] for number in mine], start)
            branch = self._branch(way[start:end], nbytes)
            if len(mine) == 1:
                found.append(RouteTree(branch, [], mine[0]))
            else:
                found.append(RouteTree(branch, self._grow(ways, mine, end, nbytes), -1))
        return found

    def _branch(self, way: Way, nbytes: int) -> Branch:
        key = tuple(map(id, way)), nbytes
        branch = self._branches.get(key)
        if branch is None:
            branch = self._branches[key] = Branch(way, nbytes)
        return branch


def _parting(ways: Sequence[Way], start: int) -> int:
    """The number of the first link from *start* on in which *ways* differ."""
    first, end = ways[0], start
    while all(way[end] is first[end] for way in ways):
        end += 1
    return end
