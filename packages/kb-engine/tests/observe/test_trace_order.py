"""The trace's order: by time, then by what the events say, whatever the order in which they become known."""

from itertools import permutations

from kb_engine.observe.tracer import TraceOrder, order_key
from kb_messages import (
    CommandComplete,
    CommandSubmitted,
    EngineComplete,
    EngineStart,
    FabricTransfer,
    SubCommandDispatched,
    TileReady,
)

COMMAND = {"pe": "pe0", "component": "pe0.pe_scheduler", "line": "k.py:1", "n_tiles": 1}


def stage(kind, t_ps, tile_id, stage_index, command_seq=0):
    more = {"completes_tile": False} if kind is EngineComplete else {"waits_ps": {}}
    return kind(
        t_ps=t_ps, op_id=0, command_seq=command_seq, tile_id=tile_id, stage_index=stage_index, component="b", stage="s",
        **more,
    )  # fmt: skip


def dispatched(t_ps, tile_id):
    return SubCommandDispatched(
        t_ps=t_ps, op_id=0, command_seq=0, tile_id=tile_id, component="b", stage="s", waits_ps={}
    )


def transfer(start, end, src="pe0.pe_dma"):
    return FabricTransfer(t_start_ps=start, t_end_ps=end, src=src, dst="hbm", nbytes=8)


AT_ONE_TIME = [
    (transfer(1, 9), False),
    (transfer(2, 9), False),
    (stage(EngineComplete, 9, 0, 1), True),
    (stage(EngineComplete, 9, 2, 0), True),
    (CommandSubmitted(t_ps=9, command_seq=0, name="gemm", first_op_id=0, n_ops=4, waits_ps={}, **COMMAND), False),
    (stage(EngineStart, 9, 1, 1), False),
    (dispatched(9, 3), False),
    (stage(TileReady, 9, 3, 0), False),
    (stage(EngineStart, 9, 3, 0), False),
    (stage(EngineComplete, 9, 3, 0), False),
    (stage(TileReady, 9, 3, 1), False),
    (CommandComplete(t_ps=9, command_seq=0, **COMMAND), False),
    (stage(TileReady, 9, 0, 0, command_seq=1), False),
]
"""In their order. A service that began before has ended before anything else begins."""


def ordered(arrivals):
    seen = []
    order = TraceOrder(seen.append)
    for event, earlier in arrivals:
        order.add(event, 9, earlier)
    order.flush()
    return seen


def test_events_at_one_time_have_one_order():
    wanted = [event for event, _ in AT_ONE_TIME]
    assert ordered(AT_ONE_TIME) == ordered(AT_ONE_TIME[::-1]) == wanted
    for number in range(0, len(AT_ONE_TIME) - 4, 2):
        for part in permutations(AT_ONE_TIME[number : number + 4]):
            assert ordered([*AT_ONE_TIME[:number], *part, *AT_ONE_TIME[number + 4 :]]) == wanted


def test_no_two_different_events_have_one_key():
    keys = [order_key(*each) for each in AT_ONE_TIME]
    assert keys == sorted(set(keys))


def test_an_event_is_handed_over_when_time_has_gone_on():
    seen = []
    order = TraceOrder(seen.append)
    first, second, third = stage(TileReady, 5, 0, 0), stage(TileReady, 5, 1, 0), stage(TileReady, 6, 2, 0)
    order.add(second, 5)
    order.add(first, 5)
    assert seen == []
    order.add(third, 6)
    assert seen == [first, second]
    order.flush()
    assert seen == [first, second, third]


def test_a_transfer_stands_where_it_ends():
    seen = []
    order = TraceOrder(seen.append)
    coming, between = transfer(5, 20), stage(TileReady, 12, 0, 0)
    order.add(coming, 5)
    order.add(between, 12)
    order.add(stage(EngineComplete, 20, 0, 0), 20, ends_earlier_service=True)
    assert seen == [between]
    order.flush()
    assert seen[1:] == [coming, stage(EngineComplete, 20, 0, 0)]


def test_no_more_is_held_than_one_time_and_what_is_under_way():
    order = TraceOrder(lambda _: None)
    longest = 0
    for t in range(1000):
        order.add(transfer(t, t + 3), t)
        order.add(stage(TileReady, t, t, 0), t)
        longest = max(longest, len(order._heap))
    assert longest == 5
