"""The contract suite on state: a block that leaves an attribute out, or hands over less or another thing, fails."""

from typing import ClassVar

import pytest
from engine_said_by import said_by
from engine_toys import Dma, Gemm, Hbm

from kb_engine.block import BY_HAND, COUNT, DEADLINE, PART, SAME, State, Stateful, StateKind, each
from kb_engine.block.fabric_roles import SingleChannelMemory
from kb_engine.fastforward.steady_state.tile_path import can_visit_state
from kb_engine.testing import component_checks
from kb_engine.testing.line import Line
from kb_engine.testing.state import names_of
from kb_engine.testing.state_views import names_read
from kb_engine.testing.subject import Subject
from kb_engine.timing.clock import Clock
from kb_messages import StageType

HBM = {"ps_per_byte": 20, "latency_ps": 30000}
LEFT_OUT = "give each a kind in `state`, or hand it over in `visit_state` after super().visit_state(over)"


class Busy(Gemm):
    """Serves a tile at once if it comes late, and otherwise not before 5 ns after the last one."""

    __slots__ = ("free_ps", "served")
    state = ("free_ps", "served")

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.free_ps = self.served = 0

    def begin(self, token, finish):
        end_ps = max(self.free_ps, self.clock.now_ps)
        self.free_ps = end_ps + 5000
        self.served += 1
        self.clock.call_at(end_ps, finish, token)


class ByHand(Busy):
    def visit_state(self, over):
        super().visit_state(over)
        self.free_ps, self.served = over.deadline(self.free_ps), over.count(self.served)


class Kinds(Busy):
    """States kinds for its own state, which is that of Busy: what a base names without kinds has none."""

    state: ClassVar[State] = {"free_ps": DEADLINE, "served": COUNT}


class Derived(Kinds):
    """Begins in a way of its own."""

    def begin(self, token, finish):
        super().begin(token, finish)


class Restated(Derived):
    """Says again that it can be skipped, with no state of its own."""

    state: ClassVar[State] = {}


class LeavesOut(Busy):
    def visit_state(self, over):
        super().visit_state(over)
        self.served = over.count(self.served)


class TakesForAnother(Busy):
    """Says that a moment is no moment."""

    def visit_state(self, over):
        super().visit_state(over)
        over.same(self.free_ps)
        self.served = over.count(self.served)


class Alternating(ByHand):
    """Does something with what it counts."""

    def begin(self, token, finish):
        self.free_ps = max(self.free_ps + 5000, self.clock.now_ps) + (3000 if self.served > 100 else 0)
        self.served += 1
        self.clock.call_at(self.free_ps, finish, token)

    def visit_state(self, over):
        super().visit_state(over)


class SlowStart(Hbm):
    """Its second port is free later, which it does not hand over."""

    state = ("second_ps",)

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.second_ps = 0

    def reserve(self, t_ps, memory, last_byte_ps, write):
        if not write:
            return super().reserve(t_ps, memory, last_byte_ps, write)
        self.second_ps = max(self.second_ps, t_ps) + 40000
        return self.second_ps, self.second_ps

    def visit_state(self, over):
        SingleChannelMemory.visit_state(self, over)


@pytest.mark.parametrize(
    ("impl", "attributes", "sentence"),
    [
        (
            LeavesOut,
            {},
            f"LeavesOut.visit_state: got nothing about free_ps, needs all attributes in `state`; {LEFT_OUT}",
        ),
        (
            SlowStart,
            HBM,
            f"SlowStart.visit_state: got nothing about second_ps, needs all attributes in `state`; {LEFT_OUT}",
        ),
    ],
)
def test_an_attribute_that_is_left_out_is_found(impl, attributes, sentence):
    assert said_by("visits_what_it_names", impl, attributes) == sentence


@pytest.mark.parametrize(
    ("impl", "attributes"), [(LeavesOut, {}), (TakesForAnother, {}), (Alternating, {}), (SlowStart, HBM)]
)
def test_a_block_that_does_something_else_after_a_shift_is_found(impl, attributes):
    sentence = said_by("goes_on_after_a_shift", impl, attributes)
    assert sentence.startswith(f"{impl.__name__}.visit_state: got ")
    assert sentence.endswith(
        "give moments the kind MOMENT or DEADLINE, and COUNT only to numbers on which no time depends"
    )


@pytest.mark.parametrize(
    ("impl", "attributes"), [(ByHand, {}), (Kinds, {}), (Restated, {}), (Busy, {}), (Gemm, {}), (Hbm, HBM), (Dma, {})]
)
def test_a_block_that_hands_over_all_of_its_state_passes_and_one_that_states_no_kinds_too(impl, attributes):
    for check in component_checks(impl, attributes):
        if any(word in str(check) for word in ("visits", "views", "shift")):
            check()


def test_only_blocks_that_say_so_can_be_skipped():
    """A class that changes what its base does, or keeps more, has to say again that it can be skipped."""
    found = {impl: can_visit_state(Subject(impl, attributes, 0, (), {}).build(Clock())) for impl, attributes in KINDS}
    can = {Gemm, Hbm, ByHand, Kinds, Restated, BelowNames}
    assert found == {impl: impl in can for impl, _ in KINDS}


class OpenRow(Hbm):
    def reserve(self, t_ps, memory, last_byte_ps, write):
        return super().reserve(t_ps, memory, last_byte_ps, write)


class LeavesNames(Busy):
    """Gives a kind to one of the names of its base."""

    state: ClassVar[State] = {"served": COUNT}


class BelowNames(ByHand):
    """Has kinds for state of its own, below a base that hands its names over by hand."""

    state: ClassVar[State] = {}


KINDS = (
    (Gemm, {}),
    (Hbm, HBM),
    (ByHand, {}),
    (Kinds, {}),
    (Busy, {}),
    (Dma, {}),
    (Derived, {}),
    (Restated, {}),
    (LeavesNames, {}),
    (BelowNames, {}),
    (OpenRow, HBM),
)


class Counting(Busy):
    """Takes a little longer for some tiles, by the number of those before."""

    state = ("recent", "waits")

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.recent, self.waits = [1, 2], False


class HandsOver(Counting):
    """Hands over *value* of the state, beside moments that are right."""

    def value(self):
        return self.served, tuple(self.recent), self.waits

    def visit_state(self, over):
        super().visit_state(over)
        self.free_ps = over.deadline(self.free_ps)
        over.same(self.value())


class Nothing(HandsOver):
    def value(self):
        return self.served % 1, tuple(self.recent), self.waits


class Rest(HandsOver):
    def value(self):
        return self.served % 64, tuple(self.recent), self.waits


class Bits(HandsOver):
    def value(self):
        return self.served & 0xFFFF, tuple(self.recent), self.waits


class Length(HandsOver):
    def value(self):
        return self.served, len(self.recent), self.waits


class Flagless(HandsOver):
    def value(self):
        return self.served, tuple(self.recent), self.waits is None


class Row(Stateful):
    """A part of a block, whose kind hands nothing over."""

    state: ClassVar[State] = {"number": StateKind("NOTHING", lambda over, value: value)}

    def __init__(self):
        self.number = 0


class OfParts(Kinds):
    state: ClassVar[State] = {"row": PART}

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.row = Row()


@pytest.mark.parametrize(
    ("impl", "name"),
    [
        (Nothing, "served"),
        (Rest, "served"),
        (Bits, "served"),
        (Length, "recent"),
        (Flagless, "waits"),
        (OfParts, "row.number"),
    ],
)
def test_unequal_states_with_equal_views_are_found(impl, name):
    sentence = said_by("unequal_states_have_unequal_views", impl)
    assert sentence.startswith(f"{impl.__name__}.visit_state: got equal views of {name} = ")
    assert sentence.endswith(
        ", needs different views of different states; "
        "hand the attribute over whole, or give it the kind BY_HAND if it matters under a condition alone"
    )


class WhileBusy(Busy):
    """The begin of its work matters while it works."""

    state: ClassVar[State] = {"free_ps": DEADLINE, "served": COUNT, "since_ps": BY_HAND, "rows": each(SAME)}

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.since_ps, self.rows = 0, [3, 4]

    def begin(self, token, finish):
        self.since_ps = self.clock.now_ps
        super().begin(token, finish)

    def visit_state(self, over):
        super().visit_state(over)
        if self.free_ps > self.clock.now_ps:
            self.since_ps = over.moment(self.since_ps)


@pytest.mark.parametrize("impl", [HandsOver, WhileBusy])
def test_unequal_states_with_unequal_views_pass(impl):
    for check in component_checks(impl, {}):
        if any(word in str(check) for word in ("names", "visits", "views", "shift")):
            check()


def test_a_server_hands_over_its_state():
    line = Line(Subject(Gemm, {}, 0, (), {}))
    server = line.block.servers[StageType.GEMM]
    line.run(20)
    assert names_of(type(server), "state") <= names_read(server)
