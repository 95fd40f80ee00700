from kb_engine.fastforward.isolated.isolated_commands import run_apart
from kb_engine.timing.clock import Clock


def test_a_run_apart_ends_with_its_last_entry():
    clock, seen = Clock(), []
    clock.call_at(1_000, lambda _: None, None)
    clock.call_at(100, lambda _: seen.append(run_apart(clock, begin)), None)

    def begin():
        clock.call_at(130, clock_at.append, "first")
        clock.call_at(170, clock_at.append, "last")

    clock_at = []
    clock.drain()
    assert seen == [70]
    assert clock_at == ["first", "last"]
    assert clock.now_ps == 1_000
