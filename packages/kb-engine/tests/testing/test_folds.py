"""The contract suite on folds: a block whose fold leaves an attribute out, or takes it for another thing, fails."""

import pytest
from engine_said_by import said_by
from engine_toys import Dma, Gemm, Hbm

from kb_engine.block.fabric_roles import SingleChannelMemory
from kb_engine.fastforward.steady_state.tile_path import can_visit_state
from kb_engine.testing import component_checks
from kb_engine.testing.state_views import names_read
from kb_engine.testing.line import Line
from kb_engine.testing.state import names_of
from kb_engine.testing.subject import Subject
from kb_engine.timing.clock import Clock
from kb_messages import StageType

HBM = {"ps_per_byte": 20, "latency_ps": 30000}
LEFT_OUT = "hand each to the pass, after super().visit_state(over)"


class Busy(Gemm):
    """Serves a tile at once if it comes late, and otherwise not before 5 ns after the last one."""

    __slots__ = ("free_ps", "served")
    state = ("free_ps", "served")

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.free_ps = self.served = 0

    def begin(self, token, finish):
        self.free_ps = max(self.free_ps + 5000, self.clock.now_ps)
        self.served += 1
        self.clock.call_at(self.free_ps, finish, token)


class TileSkipper(Busy):
    def visit_state(self, over):
        super().visit_state(over)
        self.free_ps, self.served = over.deadline(self.free_ps), over.count(self.served)


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


class Alternating(TileSkipper):
    """Does something with what it counts."""

    def begin(self, token, finish):
        self.free_ps = max(self.free_ps + 5000, self.clock.now_ps) + (3000 if self.served > 100 else 0)
        self.served += 1
        self.clock.call_at(self.free_ps, finish, token)

    def visit_state(self, over):
        super().visit_state(over)


class SlowStart(Hbm):
    """Its second port is free later, which its fold does not say."""

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
        (LeavesOut, {}, f"LeavesOut.visit_state: got nothing about free_ps, needs all attributes in `state`; {LEFT_OUT}"),
        (SlowStart, HBM, f"SlowStart.visit_state: got nothing about second_ps, needs all attributes in `state`; {LEFT_OUT}"),
    ],
)
def test_a_fold_that_leaves_an_attribute_out_is_found(impl, attributes, sentence):
    assert said_by("visits_what_it_names", impl, attributes) == sentence


@pytest.mark.parametrize(
    ("impl", "attributes"), [(LeavesOut, {}), (TakesForAnother, {}), (Alternating, {}), (SlowStart, HBM)]
)
def test_a_block_that_does_something_else_after_a_fold_is_found(impl, attributes):
    sentence = said_by("goes_on_after_a_shift", impl, attributes)
    assert sentence.startswith(f"{impl.__name__}.visit_state: got ")
    assert sentence.endswith("hand moments to `moment` or `deadline`, and what nothing depends on alone to `count`")


@pytest.mark.parametrize(("impl", "attributes"), [(TileSkipper, {}), (Busy, {}), (Gemm, {}), (Hbm, HBM), (Dma, {})])
def test_a_block_that_folds_all_of_its_state_passes_and_one_that_cannot_be_folded_too(impl, attributes):
    for check in component_checks(impl, attributes):
        if "visit_state" in str(check):
            check()


def test_only_blocks_that_say_so_can_be_folded():
    """A class that changes what its base does, or keeps more, has to say again that it can be folded."""
    folds = {impl: can_visit_state(Subject(impl, attributes, 0, (), {}).build(Clock())) for impl, attributes in KINDS}
    assert folds == {Gemm: True, Hbm: True, TileSkipper: True, Busy: False, Dma: False, Derived: False, OpenRow: False}


class Derived(TileSkipper):
    """Begins in a way of its own."""

    def begin(self, token, finish):
        super().begin(token, finish)


class OpenRow(Hbm):
    def reserve(self, t_ps, memory, last_byte_ps, write):
        return super().reserve(t_ps, memory, last_byte_ps, write)


KINDS = ((Gemm, {}), (Hbm, HBM), (TileSkipper, {}), (Busy, {}), (Dma, {}), (Derived, {}), (OpenRow, HBM))


def test_a_server_folds_its_state():
    line = Line(Subject(Gemm, {}, 0, (), {}))
    server = line.block.servers[StageType.GEMM]
    line.run(20)
    assert names_of(type(server), "state") <= names_read(server)
