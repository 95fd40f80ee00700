"""One new token attends to a cache: any heads, layouts and pages, with keys split over PEs and merged."""

from collections.abc import Callable

import numpy as np
import pytest
from qkv import projected
from running import TOPOLOGIES, Ran, check_ops

from kb_messages import BenchmarkError, DType
from kb_models.layout import Mesh, Value
from kb_models.models.builder import Builder
from kb_models.models.rotation import Rotation
from kb_models.ops import Heads, KvCache
from kb_models.ops.attention.key_shares import LEAST_KEYS, key_shares
from kb_topology import loads_topology

CUBES = "heads=cube,kv_heads=cube"


def decode(
    batch: int,
    context: int,
    heads: int,
    kv_heads: int,
    d: int = 16,
    *,
    turns: bool = True,
    page: int = 0,
    order: int = 0,
) -> Callable[[Builder], object]:
    """Builds a decode step."""
    sizes = Heads(heads=heads, kv_heads=kv_heads, head_dim=d)

    def build(m: Builder) -> object:
        rotation = Rotation() if turns else None
        qkv = projected(m, batch, sizes)
        return m.decode_attention("attention", qkv, sizes, context, rotation=rotation, page=page, order=order)

    return build


@pytest.mark.parametrize(
    ("layout", "batch", "heads", "kv_heads", "turns"),
    [
        pytest.param("", 3, 4, 2, True, id="copies in every cube"),
        pytest.param(CUBES, 3, 16, 4, True, id="four cubes share a key head"),
        pytest.param(CUBES, 1, 16, 1, True, id="one key head"),
        pytest.param(CUBES, 1, 16, 1, False, id="one key head, as it is"),
        pytest.param(CUBES, 1, 16, 16, False, id="a key head for each query head"),
        pytest.param(CUBES, 5, 18, 6, True, id="key heads at the edges of cubes"),
        pytest.param("heads=cube", 1, 16, 4, False, id="keys in every cube"),
    ],
)
def test_decode_on_sixteen_cubes(layout: str, batch: int, heads: int, kv_heads: int, turns: bool) -> None:
    check_ops("one_sip", layout, decode(batch, 261, heads, kv_heads, turns=turns))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("context", [1, 129])
def test_decode_of_a_dtype(dtype: str, context: int) -> None:
    check_ops("one_cube", "", decode(2, context, 6, 2, 40), dtype)


@pytest.mark.parametrize("turns", [True, False])
def test_blocks_at_other_places_give_other_times(turns: bool) -> None:
    times = []
    for order in (0, 1):
        ran = check_ops("one_cube", "", decode(2, 300, 4, 2, 64, turns=turns, page=16, order=order))
        times.append(ran.latency_ps["attention"])
    assert times[0] != times[1]


def test_pages_on_sixteen_cubes() -> None:
    check_ops("one_sip", CUBES, decode(3, 300, 32, 8, page=24))


def test_sequences_of_four_sips() -> None:
    check_ops("four_sip", f"{CUBES},batch=sip", decode(5, 20, 16, 8))


def test_a_chip_without_queues_gives_a_pe_whole_keys() -> None:
    lines = (TOPOLOGIES / "one_cube.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    topology = loads_topology("".join(line for line in lines if "pe_queue" not in line), "no_queues")
    ran = check_ops(topology, "", decode(2, 400, 4, 2))
    assert ran.choices["attention_keys"] == "whole: PEs without pe_queue cannot merge parts"
    assert check_ops("one_cube", "", decode(2, 400, 4, 2)).choices["attention_keys"] == "split over up to 2 PEs"


@pytest.mark.parametrize("turns", [True, False])
def test_decode_on_one_pe(turns: bool) -> None:
    check_ops("one_pe", "", decode(2, 150, 4, 2, turns=turns))


def test_shares_are_equal_and_cover_all_keys() -> None:
    """3 sequences of 2 key heads with 1000 keys are 6 * 8 steps of 128 keys: 6 for each of 8 PEs."""
    mesh = Mesh([[list(range(8))]], {})
    heads = Heads(heads=4, kv_heads=2, head_dim=8)
    q = Builder(mesh, DType.F16).input("q", (3, 32), ("batch", "heads"))
    pairs = key_shares(mesh, q, heads, 1000, 0)
    assert [(pair[0].sequence, pair[0].head) for pair in pairs] == [(s, h) for h in range(2) for s in range(3)]
    for pair in pairs:
        assert [share.start for share in pair] == [0, *(share.stop for share in pair[:-1])]
        assert pair[-1].stop == 1000
    units = [0] * 8
    for pair in pairs:
        for share in pair:
            units[share.program] += -(-(share.stop - share.start) // LEAST_KEYS)
    assert units == [6] * 8


def test_the_new_key_is_in_the_cache() -> None:
    found: list[Value] = []

    def build(m: Builder) -> None:
        decode(2, 40, 2, 1, turns=False)(m)
        found.extend((m.ops[0].reads[1], m.ops[0].reads[3]))

    ran: Ran = check_ops("one_cube", "", build)
    new, cache = (ran.read(value) for value in found)
    np.testing.assert_array_equal(cache[:, 0, -1, :], new)


def test_query_heads_that_no_key_head_serves_are_refused() -> None:
    with pytest.raises(BenchmarkError, match="heads=5 of kv_heads=2"):
        Heads(heads=5, kv_heads=2, head_dim=8)


def test_free_blocks_of_a_pool_are_no_keys() -> None:
    """2 sequences of 5 blocks are 10 blocks, in a pool of 16: as many for each of 8 PEs."""
    mesh = Mesh([[list(range(8))]], {})
    heads = Heads(heads=1, kv_heads=1, head_dim=8)
    q = Builder(mesh, DType.F16).input("q", (2, 8), ("batch", "heads"))
    cache = KvCache("cache", mesh, q, heads, 70, page=16)
    assert cache.k.shape == (16, 16 * 8)
    assert cache.table is not None
    assert cache.table.content is not None
    numbers = cache.table.content(np.random.default_rng(0)).reshape(-1)
    assert len(set(numbers.tolist())) == 10
