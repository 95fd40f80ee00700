"""The list of checks for a component: checks for every component, and checks for its costs, services and roles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from kb_dataexec import LogWriter, MemoryStore, OpLog
from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import BufferedComponent, Initiator, MemoryComponent, SingleChannelMemory
from kb_engine.block.gates import Gate
from kb_engine.block.pe_roles import AddressTranslator, CommandScheduler, MessageQueue
from kb_engine.observe.recorder import Recorder
from kb_engine.testing import costs, flow, requests
from kb_engine.testing.checks_by_form import check_checks_by_form, says_checks_by_form
from kb_engine.testing.histories import check_equal_views_go_on_alike
from kb_engine.testing.line import COMMAND, Line
from kb_engine.testing.state import check_counts, check_names_its_state
from kb_engine.testing.state_views import check_goes_on_after_a_shift, check_views_differ, check_visits_what_it_names
from kb_engine.testing.subject import PE, Neighbour, Subject
from kb_engine.testing.watch import reachable
from kb_engine.timing.clock import Clock
from kb_messages import Rectangle, StageParams, StageType, SubmittedCommand, WaitReason

_FORBIDDEN = {MemoryStore: "a memory store", Recorder: "the op log", OpLog: "an op log", LogWriter: "a log writer"}


class Check:
    """One rule for components. A call raises AssertionError with one sentence when the component breaks the rule."""

    def __init__(self, name: str, function: Callable[[], None]) -> None:
        self.name = name
        self._function = function

    def __call__(self) -> None:
        """Checks the rule."""
        self._function()

    def __str__(self) -> str:
        return self.name


def check_component(
    impl: type[ComponentBase[Any]],
    attributes: Mapping[str, Any],
    *,
    memory_nbytes: int = 1 << 20,
    neighbours: Sequence[Neighbour] = (),
    params: Mapping[StageType, Sequence[StageParams]] | None = None,
) -> None:
    """Raises AssertionError at the first check that *impl*, built from *attributes*, does not pass.

    *attributes* are the attributes of its node in a topology, *memory_nbytes* is the node's memory, and *neighbours*
    are the blocks that it finds in `connect`. *params* replaces, by stage type, the parameters for costs and tiles;
    there are no default parameters for MATH.
    """
    for check in _checks(Subject(impl, attributes, memory_nbytes, neighbours, params or {})):
        check()


def component_checks(
    impl: type[ComponentBase[Any]],
    attributes: Mapping[str, Any],
    *,
    memory_nbytes: int = 1 << 20,
    neighbours: Sequence[Neighbour] = (),
    params: Mapping[StageType, Sequence[StageParams]] | None = None,
) -> list[Check]:
    """The checks for *impl*, by name, with the arguments of `check_component`.

    `@pytest.mark.parametrize("check", component_checks(MyBlock, {...}), ids=str)` makes a test of each.
    """
    return list(_checks(Subject(impl, attributes, memory_nbytes, neighbours, params or {})))


def _checks(subject: Subject) -> Iterator[Check]:
    impl = subject.impl
    yield Check("spec_is_a_strict_struct", partial(_check_spec, subject))
    yield Check("spec_refuses_unknown_attributes", partial(_check_unknown_attributes, subject))
    yield Check("is_built_from_attributes", partial(_check_builds, subject))
    yield Check("serves_stage_types", partial(_check_serves, subject))
    yield Check("sees_no_store_and_no_log", partial(_check_sees_no_data, subject))
    yield Check("names_its_state", partial(check_names_its_state, subject))
    yield Check("counts_what_it_names", partial(check_counts, subject))
    yield from _cost_checks(subject)
    yield Check("visits_what_it_names", partial(check_visits_what_it_names, subject))
    yield Check("unequal_states_have_unequal_views", partial(check_views_differ, subject))
    yield Check("goes_on_after_a_shift", partial(check_goes_on_after_a_shift, subject))
    yield Check("equal_views_go_on_alike", partial(check_equal_views_go_on_alike, subject))
    if says_checks_by_form(impl):
        yield Check("checks_plans_by_their_form", partial(check_checks_by_form, subject))
    if impl.serves:
        yield from _flow_checks(subject)
    if issubclass(impl, BufferedComponent):
        yield Check("has_room_for_bytes", partial(_check_has_room, subject, "buffer_nbytes"))
    if issubclass(impl, MessageQueue):
        yield Check("has_slots", partial(_check_has_room, subject, "depth"))
    if issubclass(impl, Initiator):
        yield Check("keeps_its_lead", partial(flow.check_keeps_its_lead, subject))
        yield Check("keeps_to_its_outstanding", partial(flow.check_keeps_to_its_outstanding, subject))
    if issubclass(impl, SingleChannelMemory):
        yield Check("zero_bytes_occupy_nothing", partial(costs.check_zero_bytes_occupy_nothing, subject))
    if issubclass(impl, MemoryComponent):
        yield Check("requests_are_served_in_order", partial(requests.check_serves_in_order, subject))
        yield Check(
            "writes_are_committed_after_their_last_byte", partial(requests.check_commits_after_last_byte, subject)
        )
        yield Check("requests_take_time", partial(requests.check_takes_time, subject))
        if requests.says_when_free(impl):
            yield Check(
                "requests_take_the_same_time_when_free", partial(requests.check_takes_the_same_time_when_free, subject)
            )
    if issubclass(impl, AddressTranslator) and not impl.serves:
        yield Check("lookups_schedule_nothing", partial(_check_lookups_schedule_nothing, subject))
    if issubclass(impl, CommandScheduler):
        yield Check("plans_are_pure", partial(_check_plans, subject))


def _cost_checks(subject: Subject) -> Iterator[Check]:
    for cost in costs.costs_of(subject):
        name = cost.method
        yield Check(f"{name}_is_a_whole_number", partial(costs.check_is_int, subject, cost))
        yield Check(f"{name}_repeats", partial(costs.check_repeats, subject, cost))
        yield Check(f"{name}_asks_neither_clock_nor_context", partial(costs.check_asks_nothing, subject, cost))
        yield Check(f"{name}_changes_no_state", partial(costs.check_changes_nothing, subject, cost))
        if issubclass(subject.impl, SingleChannelMemory) or name == "access_ps":
            yield Check(f"{name}_grows_with_the_bytes", partial(costs.check_grows, subject, cost))

    if costs.has_pure_cost(subject.impl):
        yield Check("service_parts_add_up", partial(costs.check_parts_add_up, subject))
        yield Check("services_take_their_least", partial(costs.check_takes_its_least, subject))


def _flow_checks(subject: Subject) -> Iterator[Check]:
    yield Check("serves_each_token_once_and_in_order", partial(flow.check_serves_each_once, subject))
    yield Check("ends_at_whole_picoseconds", partial(flow.check_whole_picoseconds, subject))
    yield Check("times_repeat", partial(flow.check_times_repeat, subject))
    for stage_type in subject.impl.serves:
        if flow.stub_behind(subject, stage_type) is None:
            continue
        name = f"keeps_what_is_blocked_behind_{stage_type.name.lower()}"
        yield Check(name, partial(flow.check_keeps_what_is_blocked, subject, stage_type))


def _check_spec(subject: Subject) -> None:
    spec_type = getattr(subject.impl, "spec_type", None)
    if not (isinstance(spec_type, type) and issubclass(spec_type, msgspec.Struct)):
        got = "none" if spec_type is None else repr(spec_type)
        subject.fail("spec_type", got, "a msgspec Struct", "set `spec_type = YourSpec`")
    config = spec_type.__struct_config__
    for name in ("frozen", "forbid_unknown_fields"):
        if not getattr(config, name):
            subject.fail(
                "spec_type", f"{spec_type.__name__} without {name}", "an immutable, strict Struct", f"add {name}=True"
            )


def _check_unknown_attributes(subject: Subject) -> None:
    subject.spec()
    try:
        msgspec.convert({**subject.attributes, "no_such_attribute": 1}, subject.impl.spec_type)
    except msgspec.ValidationError:
        return
    subject.fail("spec_type", "an unknown attribute taken", "it refused", "add forbid_unknown_fields=True")


def _check_builds(subject: Subject) -> None:
    subject.build(Clock())


def _check_serves(subject: Subject) -> None:
    serves: Any = subject.impl.serves
    if not isinstance(serves, tuple) or not all(isinstance(each, StageType) for each in serves):
        subject.fail("serves", repr(serves), "a tuple of StageType")
    if len(set(serves)) < len(serves):
        subject.fail("serves", f"{serves!r}", "each stage type once")
    if not serves:
        return
    block = subject.build(Clock())
    if block.has_pure_cost and subject.impl.service_ps is ComponentBase.service_ps:
        subject.fail("serves", f"{serves[0].name}, and no cost", "service_ps, process or begin", "define one of them")
    for stage_type in serves:
        depth = subject.call("queue_depth", block.queue_depth, stage_type)
        if type(depth) is not int or depth < 1:
            subject.fail(f"queue_depth({stage_type.name})", repr(depth), "an int >= 1")
        gates = subject.call("gates", block.gates, stage_type)
        if not all(isinstance(gate, Gate) and isinstance(gate.reason, WaitReason) for gate in gates):
            subject.fail(f"gates({stage_type.name})", repr(gates), "Gates with a WaitReason as their reason")


def _check_sees_no_data(subject: Subject) -> None:
    block = subject.build(Clock())
    if subject.impl.serves:
        line = Line(subject)
        line.run()
        block = line.block
    for path, value in reachable(block):
        for kind, name in _FORBIDDEN.items():
            if isinstance(value, kind):
                fix = "a block decides when, never what"
                subject.fail(path, name, "no way from a block to data", fix)


def _check_has_room(subject: Subject, name: str) -> None:
    """The property *name*, which says how much room a block has, is an int of at least 1, the same at each question."""
    block: Any = subject.build(Clock())
    answers = [subject.call(name, lambda: getattr(block, name)) for _ in range(2)]
    if type(answers[0]) is not int or answers[0] < 1 or answers[0] != answers[1]:
        subject.fail(name, " and ".join(map(repr, answers)), "one int >= 1")


def _check_lookups_schedule_nothing(subject: Subject) -> None:
    """An MMU works during lookups alone. So programs without virtual addresses are skipped without a look at it."""
    clock = Clock()
    block = subject.build(clock)
    assert isinstance(block, AddressTranslator)
    for number in range(8):
        subject.call("lookup_ps", block.lookup_ps, Rectangle(block.page_nbytes * number, 1, 64, 64))
    if clock.entries(0) is None:
        fix = "count what a lookup takes into its result"
        subject.fail("lookup_ps", "entries of the clock", "none, because an MMU works during lookups alone", fix)


def _check_plans(subject: Subject) -> None:
    blocks: list[Any] = [subject.build(Clock()), subject.build(Clock())]
    submitted = SubmittedCommand(command_seq=0, pe=PE, line="the contract suite", command=COMMAND)
    plans = [subject.call("plan", block.plan, submitted) for block in (*blocks, blocks[0])]
    if plans[0] != plans[1] or plans[0] != plans[2]:
        subject.fail("plan", "different plans for one command", "equal ones", "let them follow from Spec and command")
    reserved = blocks[0].reserved_nbytes
    if type(reserved) is not int or reserved < 0:
        subject.fail("reserved_nbytes", repr(reserved), "an int >= 0")
