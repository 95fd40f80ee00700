"""Where every kernel of a launch stands, for somebody who interrupts the simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.launch.launch import Launch
from kb_engine.program.runner import KernelRunner
from kb_engine.timing.units import ns_text

_MOST_GROUPS = 8
_MOST_COMMANDS = 3


def kernel_positions(launches: Iterable[Launch]) -> list[str]:
    """A line for each place at which kernels of *launches* stand: the first PE there, and how many others stand alike.

    Kernels stand alike at one line with the same commands in flight; times and tiles are those of the first. Kernels
    that have ended are counted. The lines read the state of the simulation and change nothing. They may be asked for at
    any moment, also between two events.
    """
    groups: dict[tuple[str, ...], list[KernelRunner]] = {}
    ended = total = queued = 0
    for launch in launches:
        total, ended, queued = total + launch.total, ended + launch.n_ended, queued + launch.queued
        for runner in launch.runners:
            if not runner.has_ended:
                names = (_named(context) for context, _ in runner.commands.in_flight.values())
                groups.setdefault((_place(runner), *names), []).append(runner)
    lines = [_line(key[0], runners) for key, runners in list(groups.items())[:_MOST_GROUPS]]
    rest = list(groups.values())[_MOST_GROUPS:]
    if rest:
        lines.append(f"and {sum(map(len, rest))} more PEs at {len(rest)} other places")
    if queued:
        lines.append(f"{queued} of {total} programs wait for a PE")
    return [*lines, f"{ended} of {total} kernels have ended"] if ended else lines


def _line(place: str, runners: Sequence[KernelRunner]) -> str:
    first, others = runners[0], len(runners) - 1
    more = f" (and {others} more PE{'s' if others > 1 else ''} alike, up to {runners[-1].name})" if others else ""
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
    """The commands in flight: their number, and kind, line and tiles of the first few."""
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
