"""Linear ops give the numbers of numpy for any sizes, layouts and kinds of weights, in the time of their bytes."""

import numpy as np
import pytest
from msgspec.structs import replace
from running import check_ops, run_ops, two_sips

from kb_messages import BenchmarkError
from kb_models.models.builder import Builder
from kb_models.ops.linear import kernels
from kb_models.ops.linear.grouped import random_sizes
from kb_models.ops.linear.weights import QUANTISATIONS, packed_rows, pairs_of
from kb_topology import Topology


def all_of(rows: int, weights: str):
    """Builds each linear op of *rows* rows, with widths that no grid divides."""

    def build(m: Builder) -> None:
        x, r = m.input("x", (rows, 300), ("batch", "")), m.input("r", (rows, 21), ("batch", ""))
        up = m.linear("up", x, 130, "mlp", bias=True, activation="relu", weights=weights)
        m.linear("down", up, 21, "", bias=True, residual=r, weights=weights)
        m.linear("gelu", x, 3, "", activation="gelu", weights=weights)
        m.linear("silu", up, 21, "", activation="silu", weights=weights)
        heads = [("q", 6 * 8, "heads", 8), ("k", 2 * 8, "kv_heads", 8), ("v", 2 * 8, "kv_heads", 8)]
        m.projections("qkv", x, heads, bias=True, weights=weights)
        m.gated("gate", up, 37, "mlp", weights=weights)

    return build


SPLIT = "mlp=sip*cube,heads=sip*cube,kv_heads=sip*cube"


@pytest.mark.parametrize(
    ("topology", "layout", "rows", "dtype", "weights"),
    [
        ("one_pe", "", 3, "f32", "same"),
        ("one_cube", "", 70, "bf16", "same"),
        ("one_cube", "", 1, "f16", "int4"),
        ("one_cube", "", 9, "bf16", "int8"),
        ("one_pe", "", 9, "f32", "fp8"),
        (two_sips(), SPLIT, 1, "f16", "same"),
        (two_sips(), SPLIT, 2, "f16", "int4"),
        (two_sips(), "batch=sip,mlp=cube,heads=cube,kv_heads=cube", 9, "f16", "same"),
    ],
)
def test_linear_ops_of_any_size(topology: Topology | str, layout: str, rows: int, dtype: str, weights: str) -> None:
    check_ops(topology, layout, all_of(rows, weights), dtype)


def test_copies_of_key_heads_agree() -> None:
    """Four cubes in two SIPs and two key heads: the cubes of a SIP have the same head, of which each computes a half.
    `read` compares the copies."""

    def build(m: Builder) -> None:
        x = m.input("x", (2, 40), ("batch", ""))
        q, k = m.projections("qk", x, [("q", 16, "heads", 4), ("k", 8, "kv_heads", 4)])
        assert [part.bounds[1] for part in k.parts] == [(0, 4), (0, 4), (4, 8), (4, 8)]
        assert [part.bounds[1] for part in q.parts] == [(0, 4), (4, 8), (8, 12), (12, 16)]
        assert m.ops[0].reads[1].shape == (40, 24)

    check_ops(two_sips(), SPLIT, build)


def test_weights_do_not_depend_on_the_layout() -> None:
    """The same seed gives the same model, however it is split."""
    found = []
    for layout in ("", SPLIT):
        names: list[object] = []

        def build(m: Builder, names: list[object] = names) -> None:
            x = m.input("x", (2, 40), ("batch", ""))
            q, k = m.projections("qk", x, [("q", 16, "heads", 4), ("k", 8, "kv_heads", 4)], bias=True)
            names[:] = [q, k, m.gated("gate", x, 12, "mlp")]

        ran = run_ops(two_sips(), layout, build, "f32")
        found.append([ran.read(value) for value in names])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_decode_takes_the_time_of_its_weights() -> None:
    """8 rows of 2048, 1024 columns on 8 PEs: each reads 128 columns, 512 KiB, and all of x, 32 KiB, of which the other
    PEs read as much, from a slice of 102.4 GB/s. Tiles, their latency and the last product take less than a third."""
    ran = run_ops("one_cube", "", lambda m: m.linear("up", m.input("x", (8, 2048), ("", "")), 1024, ""))
    bytes_ps = 2 * 2048 * (128 + 8) * 1000 / 102.4
    assert bytes_ps < ran.latency_ps["up"] < 1.5 * bytes_ps


@pytest.mark.parametrize("k", [1, 127, 128, 129, 256, 300, 700])
def test_pairs_of_groups_hold_each_row_once(k: int) -> None:
    rows = [
        row
        for pair in pairs_of(k)
        for start, n in ((pair.row, pair.low), (pair.row + pair.low, pair.high))
        for row in range(start, start + n)
    ]
    assert rows == list(range(k))
    assert packed_rows(k) == sum(min(128, k - at) for at in range(0, k, 256))


def projected(m: Builder, weights: str) -> None:
    m.projections("p", m.input("x", (2, 64), ("", "")), [("q", 9, "", 1), ("k", 9, "", 1)], weights=weights)


@pytest.mark.parametrize("weights", QUANTISATIONS)
def test_a_product_that_lacks_its_scale_is_found(weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tolerance is narrower than any scale, and than a unit of an int4."""
    monkeypatch.setitem(kernels.FUNCTIONS, "none", lambda tl, x: x * 1.01)
    with pytest.raises(AssertionError, match="q: error"):
        check_ops("one_pe", "", lambda m: projected(m, weights))


def test_what_linear_ops_refuse() -> None:
    def refused(needle: str, build: object, layout: str = SPLIT) -> None:
        with pytest.raises(BenchmarkError, match=needle):
            run_ops(two_sips(), layout, build)  # type: ignore[arg-type]

    def x(m: Builder, axis: str = "") -> object:
        return m.input("x", (2, 16), ("batch", axis))

    refused("the activation 'swish', needs one of none, relu", lambda m: m.linear("y", x(m), 8, "", activation="swish"))
    refused("weights='int2', needs one of same, int8, fp8, int4", lambda m: m.linear("y", x(m), 8, "", weights="int2"))
    refused(
        r"the residual r of \(2, 8\) on .*, needs one of \(2, 8\), of which each cube has what it has of y",
        lambda m: m.linear("y", x(m), 8, "mlp", residual=m.input("r", (2, 8), ("batch", ""))),
    )
    refused("x in 2 parts and copies of them", lambda m: m.linear("y", m.input("x", (2, 2), ("", "mlp")), 8, ""))


def groups_of(rows: int, groups: int, n: int, sizes: list[int] | None = None):
    """Builds a grouped product, with *sizes* in place of random ones."""

    def build(m: Builder) -> None:
        x = m.input("x", (rows, 50), ("", ""))
        given = None
        if sizes is not None:
            drawn = random_sizes("sizes", m.mesh, rows, groups)
            given = replace(drawn, content=lambda rng: np.array(sizes, np.int32))
        m.grouped("grouped", x, groups, n, "mlp", given)

    return build


@pytest.mark.parametrize(
    ("topology", "layout", "rows", "groups", "n", "sizes"),
    [
        ("one_pe", "", 1, 3, 5, None),
        ("one_cube", "", 200, 2, 130, [0, 200]),
        (two_sips(), "mlp=sip*cube", 9, 4, 70, [0, 1, 8, 0]),
        (two_sips(), "mlp=cube", 7, 9, 3, None),
    ],
)
def test_groups_of_any_size(
    topology: Topology | str, layout: str, rows: int, groups: int, n: int, sizes: list[int] | None
) -> None:
    check_ops(topology, layout, groups_of(rows, groups, n, sizes))


def test_the_time_of_groups_follows_from_their_loaded_sizes() -> None:
    """A group of 8 rows reads one weight, and 8 groups of one row read 8."""
    one, eight = (
        run_ops("one_cube", "", groups_of(8, 8, 512, sizes)).latency_ps["grouped"] for sizes in ([8] + 7 * [0], 8 * [1])
    )
    assert eight > 2 * one


@pytest.mark.parametrize(("layout", "batch"), [("", 3), ("batch=sip", 2)])
def test_products_of_activations(layout: str, batch: int) -> None:
    def build(m: Builder) -> None:
        x, y = m.input("x", (batch * 5, 20), ("batch", "")), m.input("y", (batch * 20, 13), ("batch", ""))
        m.matmul("xy", x, y, batch)

    check_ops(two_sips(), layout, build)


def test_what_groups_refuse() -> None:
    with pytest.raises(BenchmarkError, match="op grouped: got x with some rows in each cube"):
        run_ops(two_sips(), "batch=sip", lambda m: m.grouped("grouped", m.input("x", (4, 8), ("batch", "")), 2, 4, ""))

    def unequal(m: Builder) -> None:
        m.matmul("z", m.input("x", (4, 20), ("", "")), m.input("y", (20, 3), ("", "")), 2)

    with pytest.raises(BenchmarkError, match=r"op z: got .* for 2 products, needs 20 rows of y for each product"):
        run_ops("one_cube", "", unequal)
