"""What a topology becomes: blocks, PEs, what is refused, and that nobody pays for observers that are not there."""

import engine_toys
import numpy as np
import pytest

from kb_engine.block import PipelineError
from kb_engine.engine.engine import Engine
from kb_engine.engine.registry import Registry
from kb_engine.host import Host
from kb_messages import KbError, TopologyError


def refusal(toy_engine, *changes):
    with pytest.raises(TopologyError) as caught:
        toy_engine(*changes)
    return str(caught.value)


def test_blocks_are_built_in_the_order_of_the_topology(toy_engine):
    engine = toy_engine()
    assert list(engine.components) == list(engine.topology.graph.nodes)
    assert [(server.node_id.rsplit(".", 1)[1], server.stage_type.name) for server in engine.servers] == [
        ("pe_dma", "DMA_READ"),
        ("pe_dma", "DMA_WRITE"),
        ("pe_fetch_store", "FETCH"),
        ("pe_fetch_store", "STORE"),
        ("pe_gemm", "GEMM"),
    ]


def test_a_word_for_exactness_that_nobody_knows_is_refused(toy_engine):
    with pytest.raises(KbError) as caught:
        toy_engine(exact="folded")
    assert str(caught.value) == "Engine: got exact='folded', needs 'isolated' or 'events' or 'check'"


def test_pes_of_one_template_share_their_spec(toy_engine):
    engine = toy_engine(("pe_layout: {count: 1}", "pe_layout: {count: 3}"))
    specs = [engine.components[f"{pe}.pe_gemm"].spec for pe in engine.pes]
    assert len({id(spec) for spec in specs}) == 1
    assert len({id(engine.components[f"{pe}.pe_gemm"]) for pe in engine.pes}) == 3


def test_a_pe_without_a_memory_for_its_tcm_is_refused(toy_engine):
    message = refusal(toy_engine, ("impl: toy.tcm, memory: {space: tcm, size: 256 KiB}}", "impl: toy.tcm}"))
    assert message == (
        "toy.yaml:9:5: $.cube.pe_template.nodes: got 1 pe_tcm nodes with a memory, needs one; "
        "give sip0.cube0.pe0 one `pe_tcm`"
    )


def test_a_pe_without_a_cpu_is_refused(toy_engine):
    message = refusal(
        toy_engine,
        ("      pe_cpu: {kind: pe_cpu, impl: toy.cpu, issue_ps: 3000}\n", ""),
        ("      - pe_cpu -> pe_scheduler\n", ""),
    )
    assert message == "sip0.cube0.pe0: got 0 blocks that are a CommandIssuer, needs one in pe_template"


@pytest.mark.parametrize(
    ("node", "impl", "serves"),
    [
        ("pe_gemm", "mover", "GEMM"),
        ("pe_gemm", "tcm", "GEMM"),
        ("pe_dma", "gemm", "DMA_READ and DMA_WRITE"),
        ("pe_fetch_store", "dma", "FETCH and STORE"),
    ],
)
def test_a_block_that_does_not_serve_what_its_kind_needs_is_refused(toy_engine, node, impl, serves):
    was = {"pe_gemm": "gemm", "pe_dma": "dma", "pe_fetch_store": "mover"}[node]
    message = refusal(toy_engine, (f"kind: {node}, impl: toy.{was}", f"kind: {node}, impl: toy.{impl}"))
    assert message.startswith("toy.yaml:1")
    assert message.endswith(
        f"$.cube.pe_template.nodes.{node}.impl: got toy.{impl} as a {node}, needs a block that serves {serves}; "
        "name a block of that kind"
    )


def test_a_fetch_store_that_owns_no_registers_is_refused(toy_engine):
    assert refusal(toy_engine, ("toy.mover", "toy.ownerless_mover")).endswith(
        "$.cube.pe_template.nodes.pe_fetch_store.impl: got toy.ownerless_mover as a pe_fetch_store, needs a "
        "RegisterFileOwner; derive it from kb_engine.block.RegisterFileOwner, so that the op log can name the "
        "registers of tiles"
    )


@pytest.mark.parametrize(
    ("place", "got", "fix"),
    [
        (
            "registers",
            "registers",
            "call `registers.place(command)` of the PE's RegisterFileOwner before the first tile is fed",
        ),
        ("accumulators", "registers", "call `registers.place(command)`"),
        ("input", "input buffers", "set `command.placement.input`"),
        ("output", "output buffers", "set `command.placement.output`"),
    ],
)
def test_a_command_without_a_place_in_the_op_log_is_refused_in_a_sentence(toy_engine, monkeypatch, place, got, fix):
    def kernel(tl, a):
        tl.composite("gemm", a, a, out=a, tile=(16, 16, 16))

    submit = engine_toys.Scheduler.submit

    def forgetful(self, command):
        submit(self, command)
        setattr(command.placement, place, None)

    monkeypatch.setattr(engine_toys.Scheduler, "submit", forgetful)
    host = Host(toy_engine())
    tensor = host.tensor("a", np.ones((16, 16), dtype=np.float16), "f16")
    with pytest.raises(PipelineError) as caught:
        host.launch(kernel, tensor)
    assert f"whose tiles use {got} without a place, needs slots for the op log to name; {fix}" in str(caught.value)
    assert str(caught.value).startswith("sip0.cube0.pe0.pe_scheduler: got a command of ")


def test_tile_buffers_larger_than_the_tcm_are_refused(toy_engine):
    message = refusal(toy_engine, ("size: 256 KiB", "size: 100 KiB"))
    assert message.startswith(
        "sip0.cube0.pe0.pe_scheduler: got tile buffers of 131072 bytes, needs at most the 102400 bytes of "
        "sip0.cube0.pe0.pe_tcm"
    )


def test_an_allocator_never_has_the_schedulers_bytes(toy_engine):
    pe = toy_engine().pes["sip0.cube0.pe0"]
    allocator = pe.tcm
    assert allocator.free_nbytes == (256 - 128) * 1024
    assert allocator.allocate(128 * 1024) == (pe.tcm_owner << 38) + 128 * 1024


def test_a_block_that_is_not_installed_is_refused_at_its_place(toy_chip, toy_points):
    with pytest.raises(TopologyError) as caught:
        Engine(toy_chip(("impl: toy.gemm}", "impl: vendor.gemm}")), registry=Registry(toy_points[:2]))
    assert str(caught.value).startswith("toy.yaml:5:")


def test_without_observers_no_block_reports_to_anybody(toy_engine):
    engine = toy_engine()
    assert {(server.record, server.record_wait) for server in engine.servers} == {(None, None)}
    assert (engine.session.recorder, engine.session.tracer) == (None, None)
    listeners = engine.session.listeners
    heard = {name for name in listeners.__slots__ if getattr(listeners, name) is not None}
    assert heard == {"on_built", "on_launch", "on_issue", "on_housekeeping"}  # the guards against runs without end


def test_one_recorder_is_called_by_every_server_itself(toy_engine, writer):
    """Between a server and the list of records there is no call of ours."""
    engine = toy_engine(writer=writer)
    assert {server.record for server in engine.servers} == {engine.session.recorder.on_stage}
    assert engine.session.recorder.on_stage.__self__ is engine.session.recorder._records.tail
