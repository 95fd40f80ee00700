"""What a block may be made of."""

import engine_toys
import pytest
from engine_toys import Dma, Gemm, GemmByCallback, GemmByProcess, Mover, NoSpec, QueueSpec, Tcm, Xbar, XbarSpec

from kb_engine.block.component import ComponentBase, Context
from kb_engine.block.gates import WiringError
from kb_engine.timing.clock import Clock
from kb_messages import StageType, TransferParams


def context(node_id="sip0.cube0.pe0.block"):
    return Context(node_id, Clock(), None, 0)


@pytest.mark.parametrize(
    ("block", "pure"), [(Gemm, True), (Mover, True), (GemmByProcess, False), (GemmByCallback, False), (Dma, False)]
)
def test_a_cost_is_pure_unless_process_or_begin_is_overridden(block, pure):
    assert block(QueueSpec(), context()).has_pure_cost == pure


def test_a_queue_is_as_deep_as_the_spec_says_and_one_deep_otherwise():
    assert Gemm(QueueSpec(queue_depth=3), context()).queue_depth(StageType.GEMM) == 3
    assert Tcm(NoSpec(), context()).queue_depth(StageType.GEMM) == 1


def test_a_block_that_serves_nothing_has_no_cost_and_no_process():
    block = Xbar(XbarSpec(), context())
    with pytest.raises(NotImplementedError, match=r"^Xbar serves no stage by a pure cost$"):
        block.service_ps(TransferParams(nbytes=1))
    with pytest.raises(NotImplementedError, match=r"^Xbar has no process$"):
        block.process(None)


def test_a_generator_is_called_back_when_it_ends():
    block, seen = GemmByProcess(QueueSpec(), context()), []
    block.begin("token", lambda token: seen.append((token, block.clock.now)))
    block.clock.drain()
    assert seen == [("token", 5000)]


def test_a_neighbour_is_found_by_role_and_type():
    here, tcm, gemm = context(), Tcm(NoSpec(), context("tcm")), Gemm(QueueSpec(), context("gemm"))
    here.add_neighbour("pe_tcm", tcm)
    here.add_neighbour("pe_gemm", gemm)
    assert here.neighbour("pe_tcm", Tcm) is tcm
    assert here.neighbour("pe_gemm", ComponentBase) is gemm
    assert here.downstream == [tcm, gemm]


@pytest.mark.parametrize(("neighbours", "count"), [([], 0), (["Tcm", "Tcm"], 2)])
def test_a_missing_or_ambiguous_neighbour_is_refused(neighbours, count):
    here = context("sip0.cube0.pe0.pe_fetch_store")
    for name in neighbours:
        here.add_neighbour("pe_tcm", getattr(engine_toys, name)(QueueSpec(), context()))
    with pytest.raises(WiringError) as caught:
        here.neighbour("pe_tcm", Tcm)
    assert str(caught.value) == (
        f"sip0.cube0.pe0.pe_fetch_store: got {count} wires to a pe_tcm that is a Tcm, needs one; "
        "add `pe_fetch_store -> pe_tcm` to the wires of pe_template"
    )


def test_a_neighbour_of_another_class_is_refused():
    here = context("sip0.cube0.pe0.pe_fetch_store")
    here.add_neighbour("pe_tcm", Gemm(QueueSpec(), context("sip0.cube0.pe0.pe_tcm")))
    with pytest.raises(WiringError) as caught:
        here.neighbour("pe_tcm", Tcm)
    assert str(caught.value) == (
        "sip0.cube0.pe0.pe_fetch_store: got a wire to sip0.cube0.pe0.pe_tcm, whose Gemm is no Tcm, "
        "needs a pe_tcm that is one; derive it from Tcm"
    )


def test_a_block_sees_neither_memory_nor_log(toy_engine, writer):
    engine = toy_engine(writer=writer)
    for block in engine.components.values():
        seen = {name: getattr(block.context, name) for name in ("node_id", "clock", "fabric", "memory_nbytes")}
        assert seen["clock"] is engine.clock
        assert not any(value is engine.memory or value is engine.memory.store for value in seen.values())
        assert not hasattr(block.context, "memory")
    assert engine.components["sip0.cube0.pe0.pe_tcm"].context.memory_nbytes == 256 * 1024
