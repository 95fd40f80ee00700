"""A trace of one command to the last event, and that a trace costs nothing where there is none."""

import numpy as np
import pytest

from kb_engine.block.stage_server import StageServer
from kb_engine.observe import Callbacks
from kb_engine.observe.traced_server import TracedServer
from kb_messages import (
    CommandComplete,
    CommandSubmitted,
    EngineComplete,
    EngineStart,
    FabricTransfer,
    KernelEnd,
    KernelStart,
    SimulationStuckError,
    SubCommandDispatched,
    TileReady,
)

READ = 42240  # 512 bytes: 2 x 1000 at the crossbar, 30000 and 512 x 20 at the slice
PE, DMA, HBM = "sip0.cube0.pe0", "sip0.cube0.pe0.pe_dma", "sip0.cube0.hbm0"


def load(tl, a):
    tl.load(a)


def zeros(host, rows=16):
    return host.tensor("a", np.zeros((rows, 16), np.float16), "f16")


def test_a_load_from_its_submission_to_its_completion(toy_host):
    events = []
    host = toy_host(observers=[Callbacks(on_trace=events.append)])
    host.launch(load, zeros(host))
    at, end = 3000, 3000 + READ
    line = f"test_tracer.py:{load.__code__.co_firstlineno + 1}"
    command = {"command_seq": 0, "pe": PE, "component": f"{PE}.pe_scheduler", "line": line, "n_tiles": 1}
    tile = {"op_id": 0, "command_seq": 0, "tile_id": 0, "component": DMA, "stage": "dma_read"}
    assert events == [
        KernelStart(t_ps=0, launch=0, pe=PE),
        CommandSubmitted(t_ps=at, name="transfer", first_op_id=0, n_ops=1, waits_ps={}, **command),
        SubCommandDispatched(t_ps=at, waits_ps={}, **tile),
        TileReady(t_ps=at, stage_index=0, waits_ps={}, **tile),
        EngineStart(t_ps=at, stage_index=0, waits_ps={}, **tile),
        FabricTransfer(t_start_ps=at, t_end_ps=end, src=DMA, dst=HBM, nbytes=512),
        EngineComplete(t_ps=end, stage_index=0, completes_tile=True, **tile),
        CommandComplete(t_ps=end, **command),
        KernelEnd(t_ps=end, launch=0, pe=PE),
    ]


def test_what_a_scheduler_does_not_say_is_its_own_wait(toy_host):
    def kernel(tl, a, b, c):
        tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))

    events = []
    host = toy_host(("impl: toy.dma}", "impl: toy.dma, queue_depth: 1}"), observers=[Callbacks(on_trace=events.append)])
    shapes = {"a": (16, 48), "b": (48, 16), "c": (16, 16)}
    host.launch(kernel, *(host.tensor(name, np.zeros(shape, np.float16), "f16") for name, shape in shapes.items()))
    # Tile 0 is read at once and tile 1 queues; the third gets in when both of tile 0's reads are done.
    waits = [event.waits_ps for event in events if isinstance(event, SubCommandDispatched)]
    assert waits == [{}, {}, {"scheduler": 2 * READ}]


def test_without_a_trace_servers_are_plain(toy_engine):
    assert {type(server) for server in toy_engine().servers} == {StageServer}
    assert {type(server) for server in toy_engine(observers=[Callbacks(on_trace=print)]).servers} == {TracedServer}


def test_the_trace_of_a_run_that_gets_stuck_is_complete_up_to_there(toy_host):
    events = []
    host = toy_host(("impl: toy.gemm}", "impl: toy.stuck_gemm}"), observers=[Callbacks(on_trace=events.append)])
    shapes = {"a": (16, 48), "b": (48, 16), "c": (16, 16)}

    def kernel(tl, a, b, c):
        tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))

    with pytest.raises(SimulationStuckError):
        host.launch(kernel, *(host.tensor(name, np.zeros(shape, np.float16), "f16") for name, shape in shapes.items()))
    started = {event.op_id for event in events if isinstance(event, EngineStart)}
    ended = {event.op_id for event in events if isinstance(event, EngineComplete)}
    # Two reads, FETCH and GEMM a tile: tile 1's GEMM is op 7.
    assert started - ended == {7}
    assert events[-1].t_ps == host.engine.clock.now


def test_a_function_in_the_place_of_the_observers_gets_the_trace(toy_host):
    watched, passed = [], []
    for observers in ([Callbacks(on_trace=watched.append)], passed.append):
        host = toy_host(observers=observers)
        host.launch(load, zeros(host))
    assert passed == watched
    assert passed
