"""Checks of costs that are pure functions of a stage, of a memory's bytes, of a node on the way, or of a command."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import BufferedComponent, ForwardingComponent, Scratchpad, SingleChannelMemory
from kb_engine.block.pe_roles import CommandIssuer, MessageQueue
from kb_engine.testing.subject import Subject
from kb_engine.testing.watch import Asked, WatchedClock, WatchedContext, forbidden, state_of
from kb_engine.timing.clock import Clock
from kb_messages import Command, DType, GemmCommand, LoadCommand, Matrix, StoreCommand

SIZES = (0, 1, 63, 64, 65, 4096, 1 << 20)
_MATRIX = Matrix.packed(16, 16, DType.F16)
COMMANDS: tuple[Command, ...] = (
    LoadCommand(src=_MATRIX, dst=_MATRIX),
    StoreCommand(src=_MATRIX, dst=_MATRIX),
    GemmCommand(a=_MATRIX, b=_MATRIX, out=_MATRIX),
)


class Cost(NamedTuple):
    """A method that must be pure, and the arguments to call the method with."""

    method: str
    asked: Sequence[tuple[Any, ...]]

    def answers(self, subject: Subject, block: ComponentBase[Any]) -> list[Any]:
        """The answers of *block*, one for each argument."""
        return [subject.call(self.method, getattr(block, self.method), *args) for args in self.asked]


def has_pure_cost(impl: type[ComponentBase[Any]]) -> bool:
    """Whether `service_ps` is the whole cost of the stages that *impl* serves."""
    return bool(impl.serves) and impl.begin is ComponentBase.begin and impl.process is ComponentBase.process


def costs_of(subject: Subject) -> list[Cost]:
    """The pure methods of the block."""
    impl = subject.impl
    costs = []
    if has_pure_cost(impl):
        costs.append(Cost("service_ps", [(each,) for kind in impl.serves for each in subject.params_for(kind)]))
    if issubclass(impl, ForwardingComponent):
        costs.append(Cost("overhead_ps", [()]))
    if issubclass(impl, BufferedComponent):
        costs.append(Cost("credit_ps", [()]))
    if issubclass(impl, SingleChannelMemory):
        asked = [(nbytes, write) for write in (False, True) for nbytes in SIZES]
        costs += [Cost("latency_ps", asked), Cost("occupancy_ps", asked)]
    if issubclass(impl, Scratchpad):
        costs.append(Cost("access_ps", [(nbytes,) for nbytes in SIZES]))
    if issubclass(impl, CommandIssuer):
        costs.append(Cost("issue_ps", [(command,) for command in COMMANDS]))
        costs += [Cost(method, [()]) for method in ("call_ps", "program_ps", "startup_ps")]
    if issubclass(impl, MessageQueue):
        costs += [Cost("doorbell_ps", [()]), Cost("credit_ps", [()])]
    return costs


def check_is_int(subject: Subject, cost: Cost) -> None:
    """Every answer is an int of at least 0."""
    block = subject.build(Clock())
    for args, answer in zip(cost.asked, cost.answers(subject, block), strict=True):
        if type(answer) is not int or answer < 0:
            subject.fail(_call(cost, args), repr(answer), "an int >= 0", "round up once, to whole picoseconds")


def check_repeats(subject: Subject, cost: Cost) -> None:
    """Equal arguments give equal answers: at a second call, in another order, and from another instance."""
    block = subject.build(Clock())
    first = cost.answers(subject, block)
    backwards = Cost(cost.method, cost.asked[::-1])
    for which, other in (("when asked again", block), ("from a fresh instance", subject.build(Clock()))):
        for args, one, two in zip(cost.asked, first, backwards.answers(subject, other)[::-1], strict=True):
            if one != two:
                fix = "let it follow from the Spec and the arguments alone"
                subject.fail(_call(cost, args), f"{one}, and {two} {which}", "one answer", fix)


def check_asks_nothing(subject: Subject, cost: Cost) -> None:
    """No answer depends on the clock or the context."""
    block = subject.build(WatchedClock(), WatchedContext)
    for args in cost.asked:
        try:
            with forbidden():
                getattr(block, cost.method)(*args)
        except Asked as asked:
            fix = "look up in __init__ or connect what does not change"
            subject.fail(cost.method, f"a use of {asked}", "the Spec and the arguments alone", fix)


def check_changes_nothing(subject: Subject, cost: Cost) -> None:
    """A call changes neither the block nor the objects that the block holds."""
    block = subject.build(Clock())
    before = state_of(block)
    cost.answers(subject, block)
    after = state_of(block)
    changed = [name for name in before | after if before.get(name) != after.get(name)]
    if changed:
        subject.fail(cost.method, f"a change of {', '.join(changed)}", "no change of state", "keep state out of costs")


def check_grows(subject: Subject, cost: Cost) -> None:
    """More bytes never cost less."""
    block = subject.build(Clock())
    answers = zip(cost.asked, cost.answers(subject, block), strict=True)
    for (one, less), (two, more) in pairwise(answers):
        if one[1:] == two[1:] and more < less:
            got = f"{less} for {one[0]} bytes and {more} for {two[0]}"
            subject.fail(cost.method, got, "at least as much for more bytes")


def check_parts_add_up(subject: Subject) -> None:
    """The parts of a service are whole picoseconds with names, and add up to `service_ps`."""
    block = subject.build(Clock())
    for kind in subject.impl.serves:
        for params in subject.params_for(kind):
            parts = subject.call("service_parts", block.service_parts, params)
            if not isinstance(parts, dict) or not parts or not all(isinstance(name, str) for name in parts):
                subject.fail(f"service_parts({params!r})", repr(parts), "picoseconds by name")
            whole = subject.call("service_ps", block.service_ps, params)
            if not all(type(part) is int and part >= 0 for part in parts.values()) or sum(parts.values()) != whole:
                needs = f"ints >= 0 that add up to service_ps, {whole}"
                subject.fail(f"service_parts({params!r})", repr(parts), needs, "give the rest to the last part")


def check_takes_its_least(subject: Subject) -> None:
    """No service is shorter than the time of its work at the block's full rate, if the block says it."""
    block = subject.build(Clock())
    for kind in subject.impl.serves:
        for params in subject.params_for(kind):
            least = subject.call("least_ps", block.least_ps, kind, params)
            whole = subject.call("service_ps", block.service_ps, params)
            if least is not None and (not isinstance(least, int | Fraction) or not 0 <= least <= whole):
                needs = f"None, or an exact number of picoseconds from 0 to service_ps, {whole}"
                subject.fail(f"least_ps({kind!r}, {params!r})", repr(least), needs, "leave out latencies and rounding")


def check_zero_bytes_occupy_nothing(subject: Subject) -> None:
    """A transfer of 0 bytes holds no channel. Requests and acknowledgements are such transfers."""
    block: Any = subject.build(Clock())
    for write in (False, True):
        occupied = subject.call("occupancy_ps", block.occupancy_ps, 0, write)
        if occupied != 0:
            subject.fail(f"occupancy_ps(0, {write})", str(occupied), "0", "put what a request costs into latency_ps")


def _call(cost: Cost, args: tuple[Any, ...]) -> str:
    return f"{cost.method}({', '.join(map(repr, args))})"
