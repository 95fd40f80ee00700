"""Reports on a simulation that cannot go on, and on the positions of kernels in one that is interrupted.

Design: docs/design/trace-and-stuck-runs.md

The report on a stuck simulation has chains of waiters, each with the circle or the missing event at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from types import FrameType
from typing import Any, Final, NamedTuple

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.engine.guards.limits import WATCHDOG, Limits
from kb_engine.engine.talk_waits import Waiter
from kb_engine.engine.wait_graph import WaitGraph
from kb_engine.launch.launch import Launch
from kb_engine.program.author.loop_turns import loops_of
from kb_engine.program.runner import KernelRunner
from kb_engine.timing.units import ns_text
from kb_messages import SimulationStuckError


def never_yields_error(error: BaseException, launch: Launch, limits: Limits) -> SimulationStuckError:
    """Returns the error to raise for a program of *launch* that *error*, of the watchdog, has stopped."""
    runner = next((each for each in launch.runners if each.stopped_at), None)
    frames, trace = list[FrameType](), error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    turns = "".join(f", {each}" for each in loops_of(frames)[:1])
    where = f"{error}" if runner is None else f"{runner.stopped_at}, in {runner.name}"
    got = f"the kernel has run for {limits.watchdog_s:g} s without a command or a wait{turns}"
    fix = f"{WATCHDOG} or --watchdog sets another number of seconds, and 0 no limit"
    return SimulationStuckError(where, got, "a loop that ends, or that uses the chip", fix)


def queued_note(launches: Iterable[Launch]) -> str:
    """Returns a clause on the programs of *launches* that wait for a PE, with "; " at its end; "" if there are none."""
    waiting = [launch for launch in launches if launch.queued]
    if not waiting:
        return ""
    queued, pes = sum(launch.queued for launch in waiting), sum(len(launch.pe_ids) for launch in waiting)
    programs = "1 program has" if queued == 1 else f"{queued} programs have"
    return (
        f"{programs} not begun, because no PE is free: programs that wait for each other, as at a barrier over the "
        f"grid, need a PE each, and the launch has {pes}; "
    )


_MOST_GROUPS: Final = 6
_MOST_LINES: Final = 12
_MOST_NAMES: Final = 3


class Chain(NamedTuple):
    """A chain of waiters that begins at the kernel `name`. Each one waits for the next.

    The last one waits for waiter number `circle`, or, if `circle` is None, for an event that never came.
    """

    pe_id: str
    name: str
    waiters: list[Waiter]
    circle: int | None

    @property
    def shape(self) -> tuple[Any, ...]:
        """A key that is equal for PEs that are stuck in the same way.

        Such PEs are those of one circle, and those of a line in which each kernel waits for the one before it.
        """
        shapes = [waiter.shape for waiter in self.waiters]
        if self.circle == 0:
            return *sorted(set(shapes)), "circle"
        return *(shape for shape, _ in groupby(shapes)), self.circle is None


def stuck_error(
    graph: WaitGraph, where: str, why: str, launches: Sequence[Launch], notes: Sequence[str] = ()
) -> SimulationStuckError:
    """Returns the error to raise at *where*. *why* says how the simulation is stuck; *launches* are under way.

    *notes* are further lines.
    """
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
        where,
        f"{unfinished} of {sum(launch.total for launch in launches)} kernels cannot go on, and {why}",
        "an event that lets one of them go on",
        "\n  ".join([f"{queued_note(launches)}who waits for whom:", *lines, *notes]),
    )


def follow(graph: WaitGraph, runner: Any) -> Chain:
    """Returns the chain of waiters that begins at a kernel."""
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
    """Returns the lines for PEs that are stuck in the same way: the chain of the first PE, and the other names."""
    first = chains[0]
    lines = [waiter.text for waiter in first.waiters]
    if len(lines) > _MOST_LINES:
        half = _MOST_LINES // 2
        lines = [*lines[:half], f"... {len(lines) - _MOST_LINES} more between ...", *lines[-half:]]
    full = graph.full_queues(first.pe_id)
    lines += [f"full queues: {'; '.join(full)}"] if full and first.circle is None else []
    lines += _end(graph, first)
    if len(chains) > 1:
        more = "1 more PE waits" if len(chains) == 2 else f"{len(chains) - 1} more PEs wait"
        lines.append(f"and {more} in the same way: {_listed([chain.name for chain in chains[1:]])}")
    return lines


def _end(graph: WaitGraph, chain: Chain) -> list[str]:
    if chain.circle is None:
        last = chain.waiters[-1].text
        others = [graph.waiter(token) for token in graph.in_service(chain.pe_id)]
        missing = [each.missing for each in others if each.text != last]
        also = [f"missing too: {_listed(missing)}"] if missing else []
        return [f"missing: {chain.waiters[-1].missing}", *also]
    circle = chain.waiters[chain.circle :]
    changes = sorted((waiter for waiter in circle if waiter.change), key=lambda waiter: not waiter.breaks)
    links = "link" if len(circle) == 1 else f"{len(circle)} links"
    lines = [f"a circle: the last {links} wait for each other"]
    return [*lines, f"the smallest change: {changes[0].change}"] if changes else lines


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


_MOST_POSITIONS = 8
_MOST_COMMANDS = 3


def kernel_positions(launches: Iterable[Launch]) -> list[str]:
    """Returns a line for each position of kernels of *launches*: the first PE there, and the number of other PEs.

    Kernels have one position if they are at one line with the same commands in flight; the line has the times and tiles
    of the first one. Ended kernels are counted. The function only reads the state of the simulation, so a caller may
    use it at any moment, also between two events.
    """
    groups: dict[tuple[str, ...], list[KernelRunner]] = {}
    ended = total = queued = 0
    for launch in launches:
        total, ended, queued = total + launch.total, ended + launch.n_ended, queued + launch.queued
        for runner in launch.runners:
            if not runner.has_ended:
                names = (_named(context) for context, _ in runner.commands.in_flight.values())
                groups.setdefault((_place(runner), *names), []).append(runner)
    lines = [_line(key[0], runners) for key, runners in list(groups.items())[:_MOST_POSITIONS]]
    rest = list(groups.values())[_MOST_POSITIONS:]
    if rest:
        lines.append(f"and {sum(map(len, rest))} more PEs at {len(rest)} other lines")
    if queued:
        lines.append(f"{queued} of {total} programs wait for a PE")
    return [*lines, f"{ended} of {total} kernels have ended"] if ended else lines


def _line(place: str, runners: Sequence[KernelRunner]) -> str:
    first, others = runners[0], len(runners) - 1
    more = (
        f" (and {others} more PE{'s' if others > 1 else ''} at the same line, up to {runners[-1].name})"
        if others
        else ""
    )
    since = f" since {ns_text(first.kernel.waiting_since_ps)}" if first.kernel.waiting_at else ""
    return f"{first.name}{more}: {place}{since}, {_commands(first)}"


def _place(runner: KernelRunner) -> str:
    kernel = runner.kernel
    if runner.stopped_at:
        return f"the kernel ran at {runner.stopped_at}"
    if kernel.waiting_at:
        return f"the kernel waits at {kernel.waiting_at}"
    if kernel.has_returned:
        return "the kernel has returned"
    return "the kernel runs" if runner.has_begun else "the kernel has not begun"


def _commands(runner: KernelRunner) -> str:
    """Returns the number of commands in flight, and kind, line and tiles of the first few."""
    contexts = [context for context, _ in runner.commands.in_flight.values()]
    if not contexts:
        return "no commands in flight"
    shown = [
        f"{_named(context)} with {context.plan.n_tiles - context.remaining} of {context.plan.n_tiles} tiles done"
        for context in contexts[:_MOST_COMMANDS]
    ]
    more = f" and {len(contexts) - _MOST_COMMANDS} more" if len(contexts) > _MOST_COMMANDS else ""
    count = "1 command" if len(contexts) == 1 else f"{len(contexts)} commands"
    return f"{count} in flight: {'; '.join(shown)}{more}"


def _named(context: CommandInFlight) -> str:
    return f"{context.plan.kind} of {context.submitted.line}"
