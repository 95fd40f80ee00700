"""The contract suite finds what it is for: each broken block fails at one check, with a sentence that says why."""

import subprocess
import sys
from collections import deque

import pytest
from engine_said_by import names_of, said_by
from engine_toys import Cpu, Dma, Gemm, GemmByCallback, GemmByProcess, Hbm, Mover, Tcm, Xbar
from msgspec import Struct

from kb_dataexec import MemoryLogWriter, MemoryStore
from kb_engine.testing import check_component
from kb_messages import StageType


@pytest.mark.parametrize(
    ("impl", "attributes"),
    [
        (Gemm, {}),
        (GemmByProcess, {"queue_depth": 1}),
        (GemmByCallback, {}),
        (Dma, {}),
        (Mover, {"queue_depth": 1}),
        (Tcm, {}),
        (Cpu, {"issue_ps": 3}),
        (Hbm, {"ps_per_byte": 20, "latency_ps": 30000}),
        (Xbar, {"overhead_ps": 1}),
    ],
)
def test_blocks_that_hold_to_the_contract_pass(impl, attributes):
    assert names_of(impl, attributes) == {}
    check_component(impl, attributes)


class LooseSpec(Struct, frozen=True):
    queue_depth: int = 4


class MutableSpec(Struct, forbid_unknown_fields=True):
    queue_depth: int = 4


class Loose(Gemm):
    spec_type = LooseSpec


class Mutable(Gemm):
    spec_type = MutableSpec


class NoStruct(Gemm):
    spec_type = dict


class Forgetful(Gemm):
    def __init__(self, spec, context):
        pass


class Costless(Gemm):
    service_ps = Gemm.__base__.service_ps


class FloatCost(Gemm):
    def service_ps(self, params):
        return 1.5


class NegativeCost(Gemm):
    def service_ps(self, params):
        return -1


class RaisingCost(Gemm):
    def service_ps(self, params):
        raise KeyError("f16")


class CountingCost(Gemm):
    calls = 0

    def service_ps(self, params):
        self.calls += 1
        return 1000 + self.calls


class QuietCounter(Gemm):
    """Equal answers, but it counts how often it is asked."""

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.seen = deque()

    def service_ps(self, params):
        self.seen.append(params.m)
        return 1000


class SlottedCounter(Gemm):
    """As QuietCounter, with a slot for what it keeps."""

    __slots__ = ("seen",)

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.seen = 0

    def service_ps(self, params):
        self.seen += 1
        return 1000


BUILT = []


class Individual(Gemm):
    """Every instance costs something else."""

    def __init__(self, spec, context):
        super().__init__(spec, context)
        BUILT.append(len(BUILT))
        self.number = BUILT[-1]

    def service_ps(self, params):
        return 1000 + self.number


class ClockCost(Gemm):
    def service_ps(self, params):
        return 1000 + self.clock.now


class ContextCost(Gemm):
    def service_ps(self, params):
        return len(self.context.node_id)


class Keeper(Gemm):
    """Keeps a store two steps away."""

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self._by_name = {"data": [MemoryStore([(1, 64, "x")])]}


class Writer(Gemm):
    """Keeps a log in a function."""

    def __init__(self, spec, context):
        super().__init__(spec, context)
        log = MemoryLogWriter()
        self._write = lambda: log


class Losing(Gemm):
    def begin(self, token, finish):
        if token.tile.tile_id != 3:
            self.clock.call_at(self.clock.now + 1000, finish, token)


class Twice(Gemm):
    def begin(self, token, finish):
        self.clock.call_at(self.clock.now + 1000, finish, token)
        self.clock.call_at(self.clock.now + 1001, finish, token)


class Completing(Gemm):
    """Completes its tile instead of passing it on."""

    def begin(self, token, finish):
        token.context.complete_tile(token, self.node_id)
        self.clock.call_at(self.clock.now + 1000, finish, token)


class Reordering(Gemm):
    """Serves the last that came first."""

    def begin(self, token, finish):
        self.servers[StageType.GEMM].queue.reverse()
        self.clock.call_at(self.clock.now + 5000, finish, token)


class Fractional(Gemm):
    def begin(self, token, finish):
        self.clock.heap.append((self.clock.now_ps + 0.5, 1, next(self.clock.event_order), finish, token))


class FractionalProcess(Gemm):
    def process(self, token):
        yield self.clock.timeout(0.5)


class Pushing(Gemm):
    """Goes on with the next token although the one before it could not leave."""

    def begin(self, token, finish):
        def end(token):
            finish(token)
            server = self.servers[StageType.GEMM]
            if server.token is token:
                server._next()

        self.clock.call_at(self.clock.now + 1000, end, token)


class Overfilling(Gemm):
    """Puts the token into the next queue by itself, room or not."""

    def begin(self, token, finish):
        server = self.servers[StageType.GEMM]
        (target,) = server.downstream[StageType.STORE].values()
        if target.token is not None:
            target.queue.append(target.token)
        self.clock.call_at(self.clock.now + 1000, finish, token)


class Endless(Gemm):
    def process(self, token):
        while True:
            yield self.clock.timeout(1)


class Moody(Gemm):
    """A service is longer in every instance."""

    def begin(self, token, finish):
        BUILT.append(len(BUILT))
        self.clock.call_at(self.clock.now + 1000 + len(BUILT), finish, token)


class NoDepth(Gemm):
    def queue_depth(self, stage_type):
        return 0


class WrongGates(Gemm):
    def gates(self, stage_type):
        return ("port",)


@pytest.mark.parametrize(
    ("impl", "check", "sentence"),
    [
        (
            Loose,
            "spec_is_a_strict_struct",
            (
                "Loose.spec_type: got LooseSpec without forbid_unknown_fields, needs an immutable, strict Struct; "
                "add forbid_unknown_fields=True"
            ),
        ),
        (
            Loose,
            "spec_refuses_unknown_attributes",
            "Loose.spec_type: got an unknown attribute taken, needs it refused; add forbid_unknown_fields=True",
        ),
        (
            Mutable,
            "spec_is_a_strict_struct",
            "Mutable.spec_type: got MutableSpec without frozen, needs an immutable, strict Struct; add frozen=True",
        ),
        (
            NoStruct,
            "spec_is_a_strict_struct",
            "NoStruct.spec_type: got <class 'dict'>, needs a msgspec Struct; set `spec_type = YourSpec`",
        ),
        (
            Forgetful,
            "is_built_from_attributes",
            "Forgetful.__init__: got no spec or no context kept, needs both; call super().__init__(spec, context)",
        ),
        (
            Costless,
            "serves_stage_types",
            "Costless.serves: got GEMM, and no cost, needs service_ps, process or begin; define one of them",
        ),
        (NoDepth, "serves_stage_types", "NoDepth.queue_depth(GEMM): got 0, needs an int >= 1"),
        (
            WrongGates,
            "serves_stage_types",
            "WrongGates.gates(GEMM): got ('port',), needs Gates with a WaitReason as their reason",
        ),
        (FloatCost, "service_ps_is_a_whole_number", "got 1.5, needs an int >= 0; round up once, to whole picoseconds"),
        (NegativeCost, "service_ps_is_a_whole_number", "got -1, needs an int >= 0"),
        (RaisingCost, "service_ps_is_a_whole_number", "got KeyError('f16'), needs an answer"),
        (
            CountingCost,
            "service_ps_repeats",
            (
                "got 1001, and 1006 when asked again, needs one answer; "
                "let it follow from the Spec and the arguments alone"
            ),
        ),
        (Individual, "service_ps_repeats", "from a fresh instance, needs one answer"),
        (
            CountingCost,
            "service_ps_changes_no_state",
            "CountingCost.service_ps: got a change of calls, needs no change of state; keep state out of costs",
        ),
        (
            QuietCounter,
            "service_ps_changes_no_state",
            "QuietCounter.service_ps: got a change of seen, needs no change of state; keep state out of costs",
        ),
        (SlottedCounter, "service_ps_changes_no_state", "SlottedCounter.service_ps: got a change of seen, needs"),
        (
            ClockCost,
            "service_ps_asks_neither_clock_nor_context",
            (
                "ClockCost.service_ps: got a use of clock.now, needs the Spec and the arguments alone; "
                "look up in __init__ or connect what does not change"
            ),
        ),
        (ContextCost, "service_ps_asks_neither_clock_nor_context", "got a use of context.node_id, needs"),
        (
            Keeper,
            "sees_no_store_and_no_log",
            (
                "Keeper._by_name['data'][0]: got a memory store, needs no way from a block to data; "
                "a block decides when, never what"
            ),
        ),
        (Writer, "sees_no_store_and_no_log", "Writer._write.log: got a log writer, needs no way from a block to data"),
        (
            Losing,
            "serves_each_token_once_and_in_order",
            (
                "Losing.GEMM: got tile 3 of 12 never finished, and nothing left to happen, "
                "needs each token finished once; call finish for every token"
            ),
        ),
        (
            Twice,
            "serves_each_token_once_and_in_order",
            "got a second end of its GEMM, needs exactly one; the block must call finish once for each token it serves",
        ),
        (Completing, "serves_each_token_once_and_in_order", "got a second completion, needs exactly one"),
        (Reordering, "serves_each_token_once_and_in_order", "needs the order in which they came"),
        (Fractional, "ends_at_whole_picoseconds", "needs times that are ints of picoseconds"),
        (FractionalProcess, "ends_at_whole_picoseconds", "got a delay of 0.5, needs an int of picoseconds"),
        (Endless, "serves_each_token_once_and_in_order", "Endless.process: got 100000 events and no end, needs"),
        (Moody, "times_repeat", "from a fresh instance, needs the same times"),
        (Pushing, "keeps_what_is_blocked_behind_gemm", "tokens served that cannot leave, needs at most the 1 it keeps"),
        (Overfilling, "keeps_what_is_blocked_behind_gemm", "needs no token put into a full queue"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_block_fails_with_the_right_sentence(impl, check, sentence):
    assert sentence in said_by(check, impl)


def test_the_first_broken_check_is_raised():
    with pytest.raises(AssertionError, match="FloatCost"):
        check_component(FloatCost, {})


def test_the_suite_needs_no_pytest():
    code = "import sys, kb_engine.testing; print(sorted({'pytest', 'kb_components', 'kb_plans'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class CostOfTheClass(Gemm):
    """Costs more with each call of any instance."""

    calls = 0

    def service_ps(self, params):
        CostOfTheClass.calls += 1
        return 1000 + CostOfTheClass.calls


def test_a_cost_that_is_not_pure_is_told_as_one():
    with pytest.raises(AssertionError, match=r"CostOfTheClass.service_ps\(.* when asked again, needs one answer"):
        check_component(CostOfTheClass, {})
