"""The report on a simulation that cannot go on.

It has chains of waiters, and for each chain the circle or the missing thing at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kb_engine.engine.wait_graph import Waiter, WaitGraph
from kb_engine.launch.launch import Launch
from kb_messages import SimulationStuckError


def queued_note(launches: Iterable[Launch]) -> str:
    """A sentence for the programs of *launches* that wait for a PE, up to "; "; "" if there are none."""
    waiting = [launch for launch in launches if launch.queued]
    if not waiting:
        return ""
    queued, pes = sum(launch.queued for launch in waiting), sum(len(launch.pe_ids) for launch in waiting)
    return (
        f"{queued} programs have not begun, because a program waits for a PE that is free: programs that wait for each "
        f"other, as at a barrier over the grid, need a PE each, and the launch has {pes}; "
    )


_MOST_GROUPS: Final = 6
_MOST_LINES: Final = 12
_MOST_NAMES: Final = 3


class Chain(NamedTuple):
    """Waiters from the kernel `name` on, each of which waits for the next.

    The last one waits for waiter number `circle`. If `circle` is None, it waits for something that never came.
    """

    pe_id: str
    name: str
    waiters: list[Waiter]
    circle: int | None

    @property
    def shape(self) -> tuple[Any, ...]:
        """A key that is equal for PEs that are stuck in the same way."""
        return *(waiter.shape for waiter in self.waiters), self.circle


def stuck_error(graph: WaitGraph, got: str, launches: Sequence[Launch]) -> SimulationStuckError:
    """The error to raise. *got* says how the simulation is stuck, and *launches* are those under way."""
    groups: dict[tuple[Any, ...], list[Chain]] = {}
    for runner in graph.runners:
        chain = follow(graph, runner)
        groups.setdefault(chain.shape, []).append(chain)
    lines = [line for chains in list(groups.values())[:_MOST_GROUPS] for line in _group(graph, chains)]
    cut = list(groups.values())[_MOST_GROUPS:]
    if cut:
        lines.append(f"and {sum(map(len, cut))} more PEs in {len(cut)} other ways")
    unfinished = len(graph.runners) + sum(launch.queued for launch in launches)
    return SimulationStuckError(
        "simulation",
        f"{got} with {unfinished} of {sum(launch.total for launch in launches)} kernels unfinished",
        "an event that lets one of them go on",
        "\n  ".join([f"{queued_note(launches)}who waits for whom:", *lines]),
    )


def follow(graph: WaitGraph, runner: Any) -> Chain:
    """The chain of waiters that begins at a kernel."""
    seen: dict[int, int] = {}
    waiters: list[Waiter] = []
    who: object = runner
    while who is not None:
        if id(who) in seen:
            return Chain(runner.pe.pe_id, runner.name, waiters, seen[id(who)])
        seen[id(who)] = len(waiters)
        waiters.append(graph.waiter(who))
        who = waiters[-1].then
    return Chain(runner.pe.pe_id, runner.name, waiters, None)


def _group(graph: WaitGraph, chains: list[Chain]) -> list[str]:
    """The lines for PEs that are stuck in the same way: those of the first PE, and the names of the others."""
    first = chains[0]
    lines = [waiter.text for waiter in first.waiters]
    if len(lines) > _MOST_LINES:
        half = _MOST_LINES // 2
        lines = [*lines[:half], f"... {len(lines) - _MOST_LINES} more between ...", *lines[-half:]]
    full = graph.full_queues(first.pe_id)
    lines += [f"full queues: {'; '.join(full)}"] if full and first.circle is None else []
    lines += _end(graph, first)
    if len(chains) > 1:
        lines.append(f"and {len(chains) - 1} more PEs wait alike: {_listed([chain.name for chain in chains[1:]])}")
    return lines


def _end(graph: WaitGraph, chain: Chain) -> list[str]:
    if chain.circle is None:
        last = chain.waiters[-1].text
        others = [graph.waiter(token) for token in graph.in_service(chain.pe_id)]
        missing = [each.missing for each in others if each.text != last]
        also = [f"missing too: {_listed(missing)}"] if missing else []
        return [f"missing: {chain.waiters[-1].missing}", *also]
    circle = chain.waiters[chain.circle :]
    change = next((waiter.change for waiter in circle if waiter.change), "")
    links = "link" if len(circle) == 1 else f"{len(circle)} links"
    lines = [f"a circle: the last {links} wait for each other"]
    return [*lines, f"the smallest change: {change}"] if change else lines


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
