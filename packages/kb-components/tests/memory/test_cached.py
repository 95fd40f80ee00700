"""A memory with a cache: hand-computed times, and the same picoseconds and counts as the plain reference model."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_components.memory.cache.cached import CachedMemory
from kb_components.memory.cache.reference import ReferenceCache
from kb_components.memory.cache.spec import CachedMemorySpec
from kb_engine.block import Context, MemoryPart
from kb_engine.timing import Clock
from kb_messages import CountedPieces, Rectangle, TopologyError

LINE = Rectangle(0, 1, 64, 64)


def spec(**attributes):
    # The port moves a byte in 1 ps, the memory behind in 10 ps. A hit takes 100 ps, a miss 1000 more.
    numbers = {"bw_gbs": 100, "latency_ns": 1, "cache_bw_gbs": 1000, "cache_latency_ns": 0.1, "line_nbytes": 64}
    return CachedMemorySpec(**numbers | {"sets": 2, "ways": 2} | attributes)


def cached(**attributes):
    return CachedMemory(spec(**attributes), Context("hbm", Clock(), None, 1 << 20))


@pytest.mark.parametrize(
    ("size", "at", "said"),
    [
        ("sets: 99999999999999, ways: 4", "sets", "got 99999999999999, needs <= 16777216"),
        ("sets: 4, ways: 99999999999999", "ways", "got 99999999999999, needs <= 16777216"),
        ("sets: 4, ways: 4, line_nbytes: 99999999999999", "line_nbytes", "got 99999999999999, needs <= 1048576"),
        (
            "sets: 16777216, ways: 16",
            "sets",
            "got 268,435,456 lines in 16 ways, needs sets * ways of at most 16,777,216; use fewer sets or ways",
        ),
        (
            "sets: 262144, ways: 16, line_nbytes: 8192",
            "sets",
            (
                "got a cache of 34,359,738,368 bytes, needs sets * ways * line_nbytes of at most 17,179,869,184; "
                "use fewer sets or ways, or shorter lines"
            ),
        ),
    ],
)
def test_a_cache_of_senseless_size_is_refused_at_its_place(chip_host, size, at, said):
    cache = f"builtin.cached, cache_bw_gbs: 100, cache_latency_ns: 1, {size}"
    with pytest.raises(TopologyError) as caught:
        chip_host(("builtin.hbm_fixed", cache))
    assert re.fullmatch(rf".+:\d+:\d+: \$\.cube\.nodes\.hbm\.{at}: {re.escape(said)}", str(caught.value))


def test_a_miss_takes_the_memory_behind_and_a_hit_the_port_alone():
    memory = cached()
    # 640 ps for the bytes of the line behind, 1000 of latency, 100 of the cache.
    assert memory.reserve(0, LINE, 0, False) == (1100, 1740)
    # 64 ps at the port.
    assert memory.reserve(5000, LINE, 5000, False) == (5100, 5164)
    assert memory.counts() == {"line_hits": 1, "line_misses": 1, "lines_written_back": 0}
    assert (memory.read_nbytes, memory.written_nbytes, memory.busy_ps) == (128, 0, 128)


def test_a_read_of_a_line_under_way_waits_for_the_line():
    memory = cached()
    assert memory.reserve(0, LINE, 0, False) == (1100, 1740)
    assert memory.reserve(10, LINE, 10, False) == (164, 1740)  # the port is free at 64; the line is there at 1640


def test_misses_take_turns_at_the_memory_behind():
    memory = cached()
    memory.reserve(0, LINE, 0, False)
    # The memory is free at 640, and takes 640 more.
    assert memory.reserve(0, Rectangle(64, 1, 64, 64), 0, False) == (1740, 2380)


def test_a_written_line_goes_back_when_another_takes_its_place():
    memory = cached(sets=1, ways=1)
    assert memory.reserve(0, LINE, 0, True) == (164, 164)
    assert memory.reserve(1000, Rectangle(64, 1, 64, 64), 1000, False) == (2100, 2740)
    assert memory.counts()["lines_written_back"] == 1
    # The memory behind was busy until 1640 with the line that came, and until 2280 with the one that went.
    assert memory.reserve(1000, Rectangle(128, 1, 64, 64), 1000, False) == (2280 + 1100, 2280 + 640 + 1100)


def test_a_write_through_takes_the_memory_behind_at_once():
    memory = cached(write="through")
    assert memory.reserve(0, LINE, 0, True) == (1740, 1740)
    assert memory.reserve(5000, LINE, 5000, False) == (6100, 6740)  # the write allocated no line


def test_a_write_ends_with_its_last_byte():
    assert cached().reserve(0, LINE, 9000, True) == (9100, 9100)


def test_reads_of_the_same_bytes_at_once_take_the_port_once():
    memory = cached(multicast=3)
    assert memory.reserve(0, LINE, 0, False) == (1100, 1740)
    assert [memory.reserve(500, LINE, 500, False) for _ in range(2)] == [(1100, 1740)] * 2
    assert memory.busy_ps == 64
    assert memory.reserve(500, LINE, 500, False) == (600, 1740)  # a fourth takes its own turn
    assert memory.reserve(5000, LINE, 5000, False) == (5100, 5164)  # nothing is under way any more


def test_pieces_are_looked_up_line_by_line():
    memory = cached(sets=16)
    pieces = CountedPieces.of((Rectangle(0, 1, 4, 4), Rectangle(60, 1, 8, 8), Rectangle(640, 2, 4, 128)), 4)
    memory.reserve(0, pieces, 0, False)
    assert memory.counts()["line_misses"] == 4  # lines 0, 1, 10 and 12


def test_a_request_without_bytes_takes_the_latency_alone():
    assert cached().reserve(0, Rectangle(0, 0, 0, 0), 0, False) == (100, 100)


REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 3000),
        st.builds(
            Rectangle, st.integers(0, 500), st.integers(1, 4), st.integers(1, 100), st.sampled_from([100, 128, 200])
        ),
        st.integers(0, 4000),
        st.booleans(),
    ),
    min_size=1,
    max_size=20,
)


@given(
    st.integers(1, 5), st.integers(1, 3), st.sampled_from(["modulo", "hashed"]), st.sampled_from(["back", "through"]),
    REQUESTS,
)  # fmt: skip
def test_every_request_agrees_with_the_reference_to_the_picosecond(sets, ways, index, write, requests):
    attributes = {"sets": sets, "ways": ways, "index": index, "write": write}
    memory, reference = cached(**attributes), ReferenceCache(spec(**attributes))
    now = 0
    for wait, rectangle, more, is_write in requests:
        now += wait
        request = now, rectangle, now + more if is_write else now, is_write
        assert memory.reserve(*request) == reference.reserve(*request)
    assert tuple(memory.counts().values()) == (reference.hits, reference.misses, reference.written_back)


@pytest.mark.parametrize("name", ["sets", "ways", "line_nbytes", "multicast"])
def test_a_cache_of_nothing_is_refused(name):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**msgspec.to_builtins(spec()), name: 0}, CachedMemorySpec)


def test_bytes_that_are_brought_in_are_hits_and_written_ones_are_written_back():
    memory = cached()
    assert memory.cache_nbytes == 2 * 2 * 64
    memory.warm(Rectangle(0, 2, 64, 128), written=False)  # lines 0 and 2, both of set 0
    assert memory.reserve(0, LINE, 0, False) == (100, 164)  # 64 ps for the bytes at the port, 100 of latency
    assert (memory.line_hits, memory.line_misses, memory.busy_ps) == (1, 0, 64)
    memory.warm(Rectangle(64, 1, 64, 64), written=True)  # line 1, of set 1
    memory.reserve(1000, Rectangle(5 * 64, 1, 64, 64), 0, False)
    assert memory.lines_written_back == 0
    memory.reserve(9000, Rectangle(7 * 64, 1, 64, 64), 0, False)  # two younger lines of set 1 push line 1 out
    assert memory.lines_written_back == 1


@pytest.mark.parametrize("written", [False, True])
def test_a_cache_that_was_warmed_is_as_after_the_requests_themselves(written):
    rows = [Rectangle(64 * start, 3, 130, 256) for start in (0, 7, 3, 30)]
    warmed, used = cached(sets=8, ways=2, index="hashed"), cached(sets=8, ways=2, index="hashed")
    for each in rows:
        warmed.warm(each, written)
        used.reserve(0, each, 0, written)
    one, other = (memory._tags for memory in (warmed, used))
    assert one._held.tolist() == other._held.tolist()
    assert one._dirty.tolist() == other._dirty.tolist()


def test_a_write_through_a_cache_brings_no_line_in():
    memory = cached(write="through")
    memory.warm(LINE, written=True)
    memory.reserve(0, LINE, 0, False)
    assert memory.line_misses == 1


def test_the_memory_behind_moves_lines_and_the_port_moves_bytes():
    """Lines 0 and 2 share a set of one way, so each takes the place of the other."""
    memory = cached(ways=1, multicast=2)
    memory.reserve(0, Rectangle(0, 1, 8, 8), 0, True)  # dirty, and nothing is fetched
    assert memory.parts == (MemoryPart("", 0, 0, 10, 0), MemoryPart("cache", 0, 8, 1))
    assert memory.unwritten_nbytes == 64
    memory.reserve(100, Rectangle(128, 1, 16, 16), 100, False)
    # Line 2 is fetched from 100 to 740, and then line 0 is written back.
    assert memory.parts == (MemoryPart("", 64, 64, 10, 1380), MemoryPart("cache", 16, 8, 1))
    assert memory.unwritten_nbytes == 0
    memory.reserve(110, Rectangle(128, 1, 16, 16), 110, False)  # joins the read before
    assert memory.parts[1] == MemoryPart("cache", 16, 8, 1)
    assert memory.read_nbytes == 32


def test_what_is_written_through_moves_at_once():
    memory = cached(write="through")
    memory.reserve(0, Rectangle(0, 1, 8, 8), 0, True)
    assert memory.parts == (MemoryPart("", 0, 64, 10, 640), MemoryPart("cache", 0, 8, 1))
    assert memory.unwritten_nbytes == 0
