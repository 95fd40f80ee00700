"""Registers of sums between commands, against a plain model of the bytes."""

from hypothesis import given
from hypothesis import strategies as st

from kb_engine.program.port import AccumulatorRegisters
from kb_messages import OFFSET_BITS


@given(st.lists(st.one_of(st.integers(1, 10).map(lambda n: 64 * n), st.integers(-4, -1)), max_size=30))
def test_ranges_are_apart_and_the_highest_that_fits_is_taken(steps):
    registers, taken = AccumulatorRegisters(3, 1024), []
    for step in steps:
        if step < 0:
            if taken:
                at, _ = taken.pop(step % len(taken))
                registers.give_back((3 << OFFSET_BITS) + at)
        else:
            free = [at for at in range(0, 1024 - step + 1, 64) if all(at + step <= x or x + n <= at for x, n in taken)]
            found = registers.take(step)
            assert found == ((3 << OFFSET_BITS) + free[-1] if free else None)
            if free:
                taken.append((free[-1], step))
        assert registers.room_nbytes == min((at for at, _ in taken), default=1024)
