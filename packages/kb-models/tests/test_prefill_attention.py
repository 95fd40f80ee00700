"""Tokens of whole sequences attend to each other: any tokens, heads and layouts, causal or not."""

from collections.abc import Callable

import numpy as np
import pytest
from qkv import projected
from running import check_ops

from kb_messages import BenchmarkError, DType
from kb_models.layout import Mesh, Value
from kb_models.models.builder import Builder
from kb_models.models.rotation import Rotation
from kb_models.ops import Heads, PrefillAttention
from kb_models.ops.attention.prefill import Work, balanced

CUBES = "heads=cube,kv_heads=cube"


def prefill(
    sequences: int,
    tokens: int,
    heads: int,
    kv_heads: int,
    d: int = 16,
    *,
    causal: bool = True,
    turns: bool = False,
    row_axis: str = "batch",
) -> Callable[[Builder], object]:
    """Builds the attention of whole sequences."""
    sizes = Heads(heads=heads, kv_heads=kv_heads, head_dim=d)

    def build(m: Builder) -> object:
        qkv = projected(m, sequences * tokens, sizes, row_axis)
        rotation = Rotation() if turns else None
        return m.prefill_attention("attention", qkv, sizes, sequences, causal=causal, rotation=rotation)

    return build


@pytest.mark.parametrize(("sequences", "tokens"), [(1, 1), (1, 130), (3, 37)])
@pytest.mark.parametrize("causal", [True, False])
def test_sequences_of_any_tokens(sequences: int, tokens: int, causal: bool) -> None:
    check_ops("one_cube", "", prefill(sequences, tokens, 4, 2, 40, causal=causal, turns=causal))


@pytest.mark.parametrize(
    ("layout", "heads", "kv_heads", "row_axis"),
    [
        pytest.param(CUBES, 32, 8, "batch", id="two cubes share a key head"),
        pytest.param(CUBES, 18, 6, "batch", id="key heads at the edges of cubes"),
        pytest.param("heads=cube", 16, 2, "batch", id="keys in every cube"),
        pytest.param("tokens=cube", 3, 1, "tokens", id="tokens over cubes"),
    ],
)
def test_layouts_over_sixteen_cubes(layout: str, heads: int, kv_heads: int, row_axis: str) -> None:
    check_ops("one_sip", layout, prefill(2, 21, heads, kv_heads, 8, turns=row_axis == "batch", row_axis=row_axis))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_dtype(dtype: str) -> None:
    check_ops("one_cube", "", prefill(1, 70, 2, 1, 80, turns=True), dtype)


def test_one_pe() -> None:
    check_ops("one_pe", "", prefill(1, 70, 2, 2, 64, turns=True))


@pytest.mark.parametrize(("dtype", "d"), [("f16", 320), ("f32", 1024)])
def test_keys_that_do_not_fit_the_tcm(dtype: str, d: int) -> None:
    """1100 keys and values of 320 elements in f16 are 1.34 MiB; a PE has 1.25 MiB beside its tile buffers."""
    check_ops("one_cube", "", prefill(1, 1050 if dtype == "f16" else 80, 1, 1, d, causal=False), dtype)


def test_cubes_with_copies_share_the_work() -> None:
    """64 tokens of 3 heads, whole in 4 cubes, are 6 jobs of 32 tokens for 8 PEs; each result goes to 4 cubes."""
    mesh = Mesh([[list(range(cube * 2, cube * 2 + 2)) for cube in range(4)]], {})
    sizes = Heads(heads=3, kv_heads=3, head_dim=8)
    qkv = projected(Builder(mesh, DType.F16), 64, sizes)
    plan = PrefillAttention("attention", mesh, qkv, sizes, 1, True).plan(64, 512)
    assert sorted(map(len, plan)) == [0, 0, 1, 1, 1, 1, 1, 1]
    assert {job.results for jobs in plan for job in jobs} == {(0, 1, 2, 3)}
    done = sorted((job.cols.start, job.rows.start, job.rows.stop) for jobs in plan for job in jobs)
    assert done == [(head * 8, at, at + 32) for head in range(3) for at in (0, 32)]


def test_a_key_head_of_more_heads_than_rows() -> None:
    check_ops("one_cube", "", prefill(1, 3, 70, 1, 8))


def test_causal_rows_are_spread_evenly() -> None:
    """512 tokens of a group of two heads are 16 jobs of 32 tokens. A PE has one early and one late job, which see 544
    keys together."""
    mesh = Mesh([[list(range(8))]], {})
    sizes = Heads(heads=2, kv_heads=1, head_dim=128)
    q, k, v = projected(Builder(mesh, DType.F16), 512, sizes)
    op = PrefillAttention("attention", mesh, (q, k, v), sizes, 1, True)
    shares = balanced(op._work(q.parts[0].bounds, 64), 8, op._cost)
    assert [len(share) for share in shares] == [2] * 8
    assert {sum(work.end for work in share) for share in shares} == {544}


def test_rows_and_parts_of_other_shapes_are_refused() -> None:
    mesh = Mesh([[[cube] for cube in range(3)]], {"heads": ("cube",)})
    m = Builder(mesh, DType.F16)
    sizes = Heads(heads=4, kv_heads=2, head_dim=8)
    q, k, v = projected(m, 6, sizes)
    with pytest.raises(BenchmarkError, match=r"6 rows of 4 sequences.*as many rows for each"):
        m.prefill_attention("attention", (q, k, v), sizes, 4)
    with pytest.raises(BenchmarkError, match=r"\(6, 16\), \(6, 16\), \(6, 16\)"):
        m.prefill_attention("attention", (k, k, v), sizes, 2)
    cut = m.input("cut", (6, 32), ("batch", "heads"))
    with pytest.raises(BenchmarkError, match="a part that cuts a head"):
        m.decode_attention("attention", (cut, k, v), sizes, 10)


def test_the_largest_work_comes_first() -> None:
    works = [Work(0, 0, end, (0, 1)) for end in (1, 2, 3, 4, 5)]
    shares = balanced(iter(works), 2, lambda work: work.end)
    assert [[work.end for work in share] for share in shares] == [[5, 2, 1], [4, 3]]


def test_positions_turn_queries_and_keys() -> None:
    """Scores of turned heads depend on differences of positions alone: equal rows give equal scores at equal distances,
    here as numpy's complex rotation has them."""
    found: list[Value] = []

    def build(m: Builder) -> None:
        prefill(2, 5, 2, 1, 8, turns=True)(m)
        found.extend((m.ops[0].reads[0], m.ops[0].writes[0]))

    ran = check_ops("one_cube", "", build, "f32")
    x, y = (ran.read(value).astype(np.float64).reshape(2, 5, 2, 2, 4) for value in found)
    angles = np.arange(5)[:, None] * 10000.0 ** (-np.arange(4) / 4)
    expected = (x[..., 0, :] + 1j * x[..., 1, :]) * np.exp(1j * angles)[None, :, None, :]
    np.testing.assert_allclose(y[..., 0, :] + 1j * y[..., 1, :], expected, atol=1e-6)
