"""Partial sums of cubes are summed, and parts of an activation are gathered, on any layout."""

from typing import Any

import numpy as np
import pytest
from running import Ran, check_ops, two_sips

from kb_dataexec import StoreError
from kb_engine import Host, read_tensor
from kb_messages import BenchmarkError
from kb_models.layout import Value
from kb_models.models.builder import Builder
from kb_models.ops import AllReduce, ReduceScatter, normal
from kb_models.ops.collective import blocks_of

SMALL = two_sips()


def summed(axis: str, rows: int, n: int, of: type = AllReduce):
    """Builds the sum of partial sums, as many as *axis* has parts, by an op of class *of*."""

    def build(m: Builder) -> None:
        shape, axes = (m.mesh.ways(axis), rows, n), (axis, "batch", "")
        parts, content = m.mesh.parts(shape, axes), normal(shape, 1.0, m.dtype)
        x = Value(name="x", shape=shape, dtype=m.dtype, parts=parts, axes=axes, content=content)
        m.add(of("sum", m.mesh, x, *(["tokens"] if of is ReduceScatter else [])))

    return build


@pytest.mark.parametrize(
    ("layout", "rows", "n", "dtype"),
    [
        ("mlp=sip*cube", 1, 37, "f32"),  # a row over 8 PEs of each of 4 cubes
        ("mlp=sip*cube,batch=none", 3, 5, "bf16"),  # 2 PEs a row, 2 PEs without work
        ("mlp=cube", 9, 16, "f16"),  # each SIP sums its own copies
        ("mlp=cube,batch=sip", 3, 16, "f16"),  # each SIP has other rows
        ("mlp=sip", 2, 3, "f32"),  # fewer columns than PEs
    ],
)
def test_an_all_reduce_of_any_rows(layout: str, rows: int, n: int, dtype: str) -> None:
    ran = check_ops(SMALL, layout, summed("mlp", rows, n), dtype)
    x, y = ran.workload._made[0].reads[0], ran.workload._made[0].writes[0]
    np.testing.assert_allclose(ran.read(y).astype(float), ran.read(x).astype(float).sum(axis=0), rtol=0.02, atol=0.05)


@pytest.mark.parametrize(
    ("layout", "rows", "n", "dtype"),
    [
        ("mlp=sip*cube,tokens=sip*cube", 9, 37, "f32"),  # 2 or 3 rows a cube
        ("mlp=cube,tokens=sip*cube", 6, 5, "bf16"),  # each SIP has terms of all rows; fewer columns than PEs
        ("mlp=cube,batch=sip,tokens=sip*cube", 5, 16, "f16"),  # a SIP has terms of 2 or 3 rows
    ],
)
def test_a_reduce_scatter_gives_each_cube_its_rows(layout: str, rows: int, n: int, dtype: str) -> None:
    ran = check_ops(SMALL, layout, summed("mlp", rows, n, ReduceScatter), dtype)
    x, y = ran.workload._made[0].reads[0], ran.workload._made[0].writes[0]
    assert [part.bounds[0] for part in y.parts] == [(c * rows // 4, (c + 1) * rows // 4) for c in range(4)]
    np.testing.assert_allclose(ran.read(y).astype(float), ran.read(x).astype(float).sum(axis=0), rtol=0.02, atol=0.05)


def test_a_reduce_scatter_in_steps_that_fit_tcm(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for 7 elements of 4 terms, a step has 5 columns and a row, or a part of a row of 9."""
    monkeypatch.setattr(Host, "tcm_nbytes", property(lambda _: 8 * 7 * (2 * 14 + 8) // 7))
    for n in (40, 72):
        check_ops(SMALL, "mlp=sip*cube,tokens=sip*cube", summed("mlp", 9, n, ReduceScatter))


def test_rows_of_other_parts_of_the_batch_are_refused() -> None:
    """Each cube would have all rows, of which the cubes of a SIP have terms of a part."""
    with pytest.raises(BenchmarkError, match=r"rows 0 to 3 of x in cube 0, .*needs rows of the part of the batch"):
        check_ops(SMALL, "mlp=cube,batch=sip", summed("mlp", 3, 16, ReduceScatter))

    def model(m: Builder) -> None:
        m.embedding("words", 4, 10, 8)

    with pytest.raises(BenchmarkError, match=r"got batch over sip and tokens over cube, .*; write tokens=sip\*cube"):
        check_ops(SMALL, "batch=sip,tokens=cube", model)


def test_blocks_of_an_all_reduce_are_pieces_of_memory_that_cover_all_elements() -> None:
    """Hand-made: 8 PEs take one row each of 8; of 3 rows, 2 PEs take halves of each; of 1 row, an eighth."""
    assert [rows for rows, _ in blocks_of(8, 5, 8)] == [slice(n, n + 1) for n in range(8)]
    assert blocks_of(3, 10, 8) == [(slice(r, r + 1), slice(c, c + 5)) for r in range(3) for c in (0, 5)]
    assert blocks_of(1, 4, 8) == [(slice(0, 1), slice(c, c + 1)) for c in range(4)]
    for rows in (1, 2, 7, 8, 19):
        seen = np.zeros((rows, 13), int)
        for each in blocks_of(rows, 13, 8):
            seen[each] += 1
        assert (seen == 1).all()


def gathered(axes: tuple[str, str], rows: int, n: int):
    """Builds a gather, and a norm that reads the same activation whole."""

    def build(m: Builder) -> None:
        x = m.input("x", (rows, n), axes)
        m.gather("whole", x)
        m.rms_norm("norm", x, 1e-5)
        m.rms_norm("again", x, 1e-5)

    return build


@pytest.mark.parametrize(
    ("layout", "axes", "rows", "n", "names"),
    [
        ("mlp=sip*cube", ("", "mlp"), 3, 37, ["whole", "x.all_gather", "norm", "again"]),
        ("mlp=cube,batch=sip", ("batch", "mlp"), 5, 6, ["whole", "x.all_gather", "norm", "again"]),
        ("tokens=sip*cube", ("tokens", ""), 3, 300, ["whole", "norm", "again"]),  # a cube without rows
    ],
)
def test_a_gather_of_rows_or_features(layout: str, axes: tuple[str, str], rows: int, n: int, names: list[str]) -> None:
    ran = check_ops(SMALL, layout, gathered(axes, rows, n))
    assert [op.name for op in ran.workload.ops] == names


def test_a_gather_is_wrong_where_a_block_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    from kb_models.ops.gather import Gather

    blocks = Gather._blocks_of
    monkeypatch.setattr(Gather, "_blocks_of", lambda self, cube: list(blocks(self, cube))[:-1] or [])
    with pytest.raises(StoreError, match="whole"):
        check_ops(SMALL, "mlp=sip*cube", lambda m: m.gather("whole", m.input("x", (8, 64), ("", "mlp"))))


def test_two_axes_of_an_array_over_one_level_are_refused() -> None:
    with pytest.raises(BenchmarkError, match="batch and mlp of one array over sip, needs one axis of an array"):
        check_ops(SMALL, "batch=sip,mlp=sip*cube", lambda m: m.input("x", (8, 64), ("batch", "mlp")))


def test_a_gather_reads_from_its_own_sip_where_it_can() -> None:
    """Both SIPs have copies, so the links between SIPs carry nothing and both SIPs take the same time as one."""

    def time(layout: str) -> int:
        ran: Ran = check_ops(SMALL, layout, lambda m: m.gather("whole", m.input("x", (8, 1024), ("", "mlp"))))
        return ran.latency_ps["whole"]

    assert time("mlp=cube") < time("mlp=sip*cube")


def test_parts_of_equal_content_share_an_array() -> None:
    def build(m: Builder) -> None:
        m.linear("y", m.input("x", (5, 16), ("batch", "")), 24, axis="mlp")

    ran = check_ops(SMALL, "batch=sip,mlp=cube", build)
    (weight,) = (
        value for op in ran.workload._made for value in op.reads if value.purpose == "weight" and "x" not in value.name
    )
    held = dict[Any, list[np.ndarray]]()
    for part, tensor in zip(weight.parts, ran.workload._tensors[weight], strict=True):
        held.setdefault(part.bounds, []).append(read_tensor(ran.memory, tensor))
    assert [len(equal) for equal in held.values()] == [2] * 16  # PEs of the two cubes of a SIP have other columns
    assert all(np.shares_memory(*equal) for equal in held.values())
    assert weight.held_nbytes == 16 * 24 * 2
