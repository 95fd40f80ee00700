"""The contract suite on state: an attribute that changes while a block works is named, and only attributes are."""

import pytest
from engine_said_by import said_by
from engine_toys import Cpu, Dma, Gemm, Hbm

from kb_engine.block.stage_server import StageServer
from kb_engine.testing import component_checks
from kb_engine.testing.line import Line
from kb_engine.testing.state import names_of
from kb_engine.testing.subject import Subject
from kb_engine.testing.watch import state_of

HBM = {"ps_per_byte": 20, "latency_ps": 30000}


class Counting(Gemm):
    """Counts its services in a slot that it does not name."""

    __slots__ = ("count",)

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.count = 0

    def begin(self, token, finish):
        self.count += 1
        self.clock.call_at(self.clock.now_ps + 1000, finish, token)


class Listing(Counting):
    state = ("count",)


class Remembering(Counting):
    caches = ("count",)


class Nested(Counting):
    """Keeps what changes in an object of its own."""

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.log = {"served": []}

    def begin(self, token, finish):
        self.log["served"].append(token.tile.tile_id)
        self.clock.call_at(self.clock.now_ps + 1000, finish, token)


class Misspelt(Listing):
    state = ("cuont",)


class OpenRow(Hbm):
    """A memory that remembers the last address."""

    def reserve(self, t_ps, memory, last_byte_ps, write):
        self.row = memory.base
        return super().reserve(t_ps, memory, last_byte_ps, write)


FIX = "add each to `state`, or to `caches` if forgetting it changes nothing"


@pytest.mark.parametrize(
    ("impl", "attributes", "sentence"),
    [
        (Counting, {}, f"Counting.state: got a change of count, needs the names of all attributes that change; {FIX}"),
        (Nested, {}, f"Nested.state: got a change of log, needs the names of all attributes that change; {FIX}"),
        (Misspelt, {}, "Misspelt.state: got the name cuont, needs names of the block's attributes; remove it"),
        (OpenRow, HBM, f"OpenRow.state: got a change of row, needs the names of all attributes that change; {FIX}"),
    ],
)
def test_a_change_without_a_name_and_a_name_without_an_attribute_are_found(impl, attributes, sentence):
    assert said_by("names_its_state", impl, attributes) == sentence


@pytest.mark.parametrize(
    ("impl", "attributes"),
    [(Gemm, {}), (Listing, {}), (Remembering, {}), (Dma, {}), (Hbm, HBM), (Cpu, {"issue_ps": 1000})],
)
def test_a_block_that_names_what_changes_passes(impl, attributes):
    (check,) = (each for each in component_checks(impl, attributes) if str(each) == "names_its_state")
    check()


def test_names_come_from_the_class_and_all_its_bases():
    assert names_of(OpenRow, "state") == {"busy_ps", "free_ps", "read_nbytes", "written_nbytes"}
    assert names_of(OpenRow, "caches") == {"_costs", "_last"}


def test_a_stage_server_names_its_state_and_its_caches():
    """Between one tile and the next, nothing changes in a server but what it names."""
    line = Line(Subject(Gemm, {}, 0, (), {}))
    (server,) = line.block.servers.values()
    before = state_of(server, own=True)
    line.run()
    changed = {name for name, value in state_of(server, own=True).items() if value != before.get(name)}
    changed.remove("record")  # the list that the test's observer fills
    assert changed <= names_of(StageServer, "state") | names_of(StageServer, "caches")
    assert changed >= {"busy_ps", "served", "_command", "_costs"}


class Tally(Listing):
    """Names what it counts."""

    counters = ("count",)


class Twice(Tally):
    """Counts one thing more, in a property."""

    counters = ("tokens",)

    @property
    def tokens(self):
        return 2 * self.count


class LostCounter(Listing):
    counters = ("cuont",)


class Share(Tally):
    @property
    def share(self):
        return 0.5

    counters = ("share",)


class Falling(Tally):
    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.count = 100

    def begin(self, token, finish):
        super().begin(token, finish)
        self.count -= 2


@pytest.mark.parametrize(
    ("impl", "sentence"),
    [
        (LostCounter, "LostCounter.counters: got the name cuont, needs names of the block's attributes; remove it"),
        (Share, "Share.counters: share: got 0.5, needs an int >= 0"),
        (Falling, "Falling.counters: count: got 88 after 100, needs a number that never falls"),
    ],
)
def test_a_counter_that_counts_nothing_is_found(impl, sentence):
    assert said_by("counts_what_it_names", impl) == sentence


def test_counters_are_those_of_the_class_after_those_of_its_bases():
    (check,) = (each for each in component_checks(Twice, {}) if str(each) == "counts_what_it_names")
    check()
    line = Line(Subject(Twice, {}, 0, (), {}))
    line.run()
    assert list(line.block.counts().items()) == [("count", 12), ("tokens", 24)]
    assert line.stub.counts() == {}
