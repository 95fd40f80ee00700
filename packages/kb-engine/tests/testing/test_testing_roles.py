"""As test_testing, for blocks that the engine itself talks to: nodes that forward, memories, DMAs, PE_CPUs."""

import pytest
from engine_said_by import said_by
from engine_toys import Cpu, Dma, Hbm, HbmSpec, NoSpec, TwofoldDma, Xbar

from kb_engine.block import AddressTranslator, MessageQueue, Scratchpad
from kb_engine.testing import check_component
from kb_messages import Rectangle


class Mmu(AddressTranslator[NoSpec]):
    """A lookup takes a nanosecond."""

    spec_type = NoSpec
    page_nbytes = 4096

    def lookup_ps(self, memory):
        return 1000

    def forget(self, virtual, nbytes):
        pass


class Refilling(Mmu):
    """Fetches the next page after a lookup."""

    def lookup_ps(self, memory):
        self.clock.call_at(self.clock.now_ps + 1000, self.fetch, memory.base, self.event_order)
        return super().lookup_ps(memory)

    def fetch(self, virtual):
        pass


class Queue(MessageQueue[NoSpec]):
    """Two slots, and no time."""

    spec_type = NoSpec
    depth = 2

    def doorbell_ps(self):
        return 0

    def credit_ps(self):
        return 0


class Slotless(Queue):
    depth = 0


class Early(Queue):
    def doorbell_ps(self):
        return -1


class Punctual(Queue):
    """Gives credits at whole nanoseconds alone."""

    def credit_ps(self):
        return -self.clock.now_ps % 1000


class Polling(Cpu):
    def call_ps(self):
        return 0.5


class Loaded(Xbar):
    def overhead_ps(self):
        return self.clock.now


class Shrinking(Hbm):
    def occupancy_ps(self, nbytes, write):
        return 0 if nbytes > 4096 else nbytes


class Eager(Hbm):
    def occupancy_ps(self, nbytes, write):
        return 100 + nbytes


class Impatient(Hbm):
    def reserve(self, t_ps, nbytes, last_byte_ps, write):
        return t_ps - 1, t_ps


class Forgetful(Hbm):
    """Commits a write before its last byte is there."""

    def reserve(self, t_ps, memory, last_byte_ps, write):
        return super().reserve(t_ps, memory, t_ps, write)


class ForgetfulWhenBusy(Hbm):
    """Commits every write but the first before its last byte is there."""

    def reserve(self, t_ps, memory, last_byte_ps, write):
        return super().reserve(t_ps, memory, t_ps or last_byte_ps, write)


class Boastful(Hbm):
    """Says that bytes hold it before they are there."""

    def held_ps(self, memory, write):
        begin, end = super().held_ps(memory, write)
        return begin - 1, end


class Tiring(Hbm):
    """Says that requests take equal times, and takes longer for each tenth one."""

    state = ("served",)
    free_times = ("free_ps",)

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.served = 0

    def reserve(self, t_ps, memory, last_byte_ps, write):
        self.served += 1
        later_ps = 0 if self.served % 10 else 5000
        first, last = super().reserve(t_ps, memory, last_byte_ps, write)
        return first + later_ps, last + later_ps


class Unlike(Hbm):
    """Says another latency of reads than its reads have."""

    def read_latency_ps(self, nbytes):
        return super().read_latency_ps(nbytes) + 1


class Generous(Hbm):
    """Says that reads and writes do not wait for each other, and has them wait."""

    has_write_port = True

    def held_ps(self, memory, write):
        return self.free_ps - 2 * memory.nbytes * self.spec.ps_per_byte, self.free_ps


class Timeless(Hbm):
    def latency_ps(self, nbytes, write):
        return 0

    def occupancy_ps(self, nbytes, write):
        return 0


class TimelessWrites(Timeless):
    def occupancy_ps(self, nbytes, write):
        return 0 if write else nbytes


class Boundless(Hbm):
    def occupancy_ps(self, nbytes, write):
        return 0


class Shallow(Scratchpad):
    """Costs less for more bytes."""

    spec_type = HbmSpec

    def access_gates(self, stage_type):
        return ()

    def access_ps(self, nbytes):
        return 0 if nbytes > 4096 else nbytes

    def reserve(self, t_ps, memory, last_byte_ps, write):
        return last_byte_ps + 1, last_byte_ps + 1


class Dear(Cpu):
    def issue_ps(self, command):
        return str(command)


class Hasty(Dma):
    lead_ps = 5000


class Split(Dma):
    """Two reads for each token, or two writes: the first of one byte, the second of all."""

    def begin(self, token, finish):
        memory = token.stages[token.index].params.memory
        start = self.context.fabric.read if token.index == 0 else self.context.fabric.write
        for part, end in ((Rectangle(0, 1, 1, 1), lambda _: None), (memory, finish)):
            start("the only path", part, self.clock.now, end, token)


class Inexact(TwofoldDma):
    def issued_ps(self, stage_type):
        return self.clock.now / 2


class Paused(Dma):
    outstanding = 0


class Vague(Dma):
    lead_ps = 0.5


HBM = {"ps_per_byte": 20, "latency_ps": 30000}


@pytest.mark.parametrize(
    ("impl", "attributes", "check", "sentence"),
    [
        (
            Loaded,
            {},
            "overhead_ps_asks_neither_clock_nor_context",
            (
                "Loaded.overhead_ps: got a use of clock.now, needs the Spec and the arguments alone; "
                "look up in __init__ or connect what does not change"
            ),
        ),
        (
            Hasty,
            {},
            "keeps_its_lead",
            (
                "Hasty.lead_ps: got a transfer that starts 0 ps after its call, "
                "needs the 5000 ps that it promises, or more; promise less"
            ),
        ),
        (
            Split,
            {},
            "keeps_to_its_outstanding",
            (
                "Split.outstanding: got 2 reads under way at once, needs the 1 that it declares, or fewer; "
                "start one for each token"
            ),
        ),
        (
            Inexact,
            {},
            "keeps_to_its_outstanding",
            "needs an int; round up once, to whole picoseconds",
        ),
        (
            Paused,
            {},
            "keeps_to_its_outstanding",
            "Paused.outstanding: got 0, needs an int >= 1; let it follow from the Spec",
        ),
        (Vague, {}, "keeps_its_lead", "Vague.lead_ps: got 0.5, needs an int >= 0; round down, to whole picoseconds"),
        (
            Shrinking,
            HBM,
            "occupancy_ps_grows_with_the_bytes",
            "Shrinking.occupancy_ps: got 4096 for 4096 bytes and 0 for 1048576, needs at least as much for more bytes",
        ),
        (
            Eager,
            HBM,
            "zero_bytes_occupy_nothing",
            "Eager.occupancy_ps(0, False): got 100, needs 0; put what a request costs into latency_ps",
        ),
        (
            Impatient,
            HBM,
            "requests_are_served_in_order",
            "got -1 and 0 for a request that arrives at 0, needs ints in order, not before the arrival",
        ),
        (
            Boastful,
            HBM,
            "requests_are_served_in_order",
            (
                "Boastful.held_ps: got (-1, 10240) for a request that arrives at 0 and is answered at 30000 and 40240, "
                "needs ints in order, from 0 on; return None where requests of a port do not follow one another"
            ),
        ),
        (
            Unlike,
            HBM,
            "requests_are_served_in_order",
            (
                "Unlike.read_latency_ps: got 30001 for a read that is served at 0 and answered at 30000, needs 30000; "
                "return None where reads of a size differ"
            ),
        ),
        (Generous, HBM, "requests_are_served_in_order", "Generous.held_ps: got (-10240, 10240) for a request that"),
        (
            Forgetful,
            HBM,
            "writes_are_committed_after_their_last_byte",
            (
                "Forgetful.reserve: got a write that is committed at 111920, with its last byte at 100000000, "
                "needs a commit at the last byte or later; commit not before last_byte_ps"
            ),
        ),
        (
            ForgetfulWhenBusy,
            HBM,
            "writes_are_committed_after_their_last_byte",
            "got a write that is committed at 100111920, with its last byte at 200000000, needs a commit",
        ),
        (
            Timeless,
            HBM,
            "requests_take_time",
            "Timeless.reserve: got a read of 4096 bytes that takes no time, needs at least 1 ps",
        ),
        (TimelessWrites, HBM, "requests_take_time", "got a write of 4096 bytes that takes no time, needs at least 1"),
        (
            Boundless,
            HBM,
            "requests_take_time",
            (
                "Boundless.reserve: got 8 reads of 4096 bytes that take as long as one, 30000 ps, "
                "needs longer for more; have the bytes of a request hold the memory"
            ),
        ),
        (
            Tiring,
            HBM,
            "requests_take_the_same_time_when_free",
            (
                "Tiring.free_times: got a write of 64 bytes that takes (36280, 36280, 1280), "
                "after one that took (31280, 31280, 1280) ps, needs equal times once the memory is free; "
                "say no `free_times`"
            ),
        ),
        (
            Shallow,
            HBM,
            "access_ps_grows_with_the_bytes",
            "Shallow.access_ps: got 4096 for 4096 bytes and 0 for 1048576, needs at least as much for more bytes",
        ),
        (Dear, {"issue_ps": 1}, "issue_ps_is_a_whole_number", "needs an int >= 0"),
        (
            Refilling,
            {},
            "lookups_schedule_nothing",
            (
                "Refilling.lookup_ps: got entries of the clock, needs none, because an MMU works during lookups alone; "
                "count what a lookup takes into its result"
            ),
        ),
        (Slotless, {}, "has_slots", "Slotless.depth: got 0 and 0, needs one int >= 1"),
        (Early, {}, "doorbell_ps_is_a_whole_number", "Early.doorbell_ps(): got -1, needs an int >= 0"),
        (
            Punctual,
            {},
            "credit_ps_asks_neither_clock_nor_context",
            "Punctual.credit_ps: got a use of clock.now_ps, needs the Spec and the arguments alone",
        ),
        (Polling, {"issue_ps": 1}, "call_ps_is_a_whole_number", "Polling.call_ps(): got 0.5, needs an int >= 0"),
        (
            Hbm,
            {"ps_per_byte": 20},
            "is_built_from_attributes",
            (
                "Hbm.Spec: got attributes that it refuses (Object missing required field `latency_ps`), "
                "needs attributes to build the block from"
            ),
        ),
    ],
)
def test_a_broken_role_fails_with_the_right_sentence(impl, attributes, check, sentence):
    assert sentence in said_by(check, impl, attributes)


def test_a_block_may_have_as_many_transfers_under_way_as_it_says():
    check_component(TwofoldDma, {})


@pytest.mark.parametrize("plain", [Mmu, Queue])
def test_an_mmu_and_a_queue_may_be_as_plain_as_can_be(plain):
    check_component(plain, {})


class Abstract(Hbm):
    latency_ps = Hbm.__base__.latency_ps


def test_a_role_half_done_names_what_is_missing():
    assert said_by("is_built_from_attributes", Abstract, HBM) == (
        "Abstract.class: got no latency_ps, needs every method of its role; define them"
    )
