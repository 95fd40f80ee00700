"""The contract suite on hidden state: a block whose views hide what its times follow from fails."""

from collections import defaultdict
from itertools import count
from typing import ClassVar

import pytest
from engine_said_by import names_of
from engine_toys import Gemm, Hbm

from kb_engine.block import BY_HAND, COUNT, SAME, SIZE, State
from kb_engine.fastforward.steady_state.tile_path import can_visit_state
from kb_engine.testing.subject import Subject
from kb_engine.timing.clock import Clock

HBM = {"ps_per_byte": 20, "latency_ps": 30000}
SLOWER_PS = 500


class Historian(Gemm):
    """Every seventh tile takes longer. The class states no kinds, so its blocks are never skipped."""

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.n = 0

    def is_slow(self):
        self.n += 1
        return self.n % 7 == 0

    def begin(self, token, finish):
        cost_ps = self.service_ps(token.stages[token.index].params) + SLOWER_PS * self.is_slow()
        self.clock.call_at(self.clock.now_ps + cost_ps, finish, token)


class Honest(Historian):
    state: ClassVar[State] = {"n": SAME}


class Remainder(Historian):
    """Hands over less than the number, and enough: its times follow from the remainder."""

    state: ClassVar[State] = {"n": BY_HAND}

    def visit_state(self, over):
        super().visit_state(over)
        over.same(self.n % 7)


class Nothing(Historian):
    """Hands over n % 1, which is always 0."""

    def visit_state(self, over):
        super().visit_state(over)
        over.same(self.n % 1)


class NothingByHand(Nothing):
    state: ClassVar[State] = {"n": BY_HAND}


class Count(Historian):
    """Says that no time depends on the number. A multiple of 8 is hidden from a shift by a power of two."""

    state: ClassVar[State] = {"n": COUNT}

    def is_slow(self):
        self.n += 1
        return self.n % 8 == 0


class Size(Historian):
    """Says that only the number of items matters."""

    state: ClassVar[State] = {"n": SIZE}

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.n = [0]

    def is_slow(self):
        self.n[0] += 1
        return self.n[0] % 7 == 0


class Cached(Historian):
    """Says that the number only remembers an answer."""

    state: ClassVar[State] = {}
    caches = ("n",)


class Iterator(Historian):
    """Keeps the number where no comparison of attributes looks."""

    state: ClassVar[State] = {}

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.numbers = count(1)

    def is_slow(self):
        return next(self.numbers) % 7 == 0


CALLS = defaultdict(int)


class Outside(Historian):
    """Keeps the number outside of the block."""

    state: ClassVar[State] = {}

    def is_slow(self):
        CALLS[self.clock] += 1
        return CALLS[self.clock] % 7 == 0


class TimeOfDay(Historian):
    """Takes longer in every third microsecond."""

    state: ClassVar[State] = {}

    def is_slow(self):
        return self.clock.now_ps // 1_000_000 % 3 == 2


class Refreshed(Hbm):
    """A memory of which every ninth request takes longer, and which says that no time depends on their number."""

    state: ClassVar[State] = {"n": COUNT}

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.n = 0

    def reserve(self, t_ps, memory, last_ps, write):
        self.n += 1
        begin_ps, end_ps = super().reserve(t_ps, memory, last_ps, write)
        return begin_ps, end_ps + SLOWER_PS * (self.n % 9 == 0)


LIARS = (Nothing, NothingByHand, Count, Size, Cached, Iterator, Outside, TimeOfDay)


def failed(impl, attributes):
    """The sentence of the check, "" where *impl* passes."""
    return names_of(impl, attributes).get("equal_views_go_on_alike", "")


@pytest.mark.parametrize("impl", LIARS)
def test_a_block_whose_views_hide_its_state_fails(impl):
    said = failed(impl, {})
    assert said.startswith(f"{impl.__name__}.visit_state: got ")
    assert "of equal work" in said
    assert "needs equal times after equal views; name every attribute on which a time depends" in said


def test_a_memory_whose_views_hide_its_state_fails():
    assert failed(Refreshed, HBM).startswith("Refreshed.visit_state: got ")


@pytest.mark.parametrize("impl", [Gemm, Honest, Remainder])
def test_blocks_that_hand_over_what_matters_pass(impl):
    assert failed(impl, {}) == ""


def test_a_block_that_is_never_skipped_need_not_be_compared():
    assert not can_visit_state(Subject(Historian, {}, 0, (), {}).build(Clock()))
    assert failed(Historian, {}) == ""
