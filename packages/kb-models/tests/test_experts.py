"""Rows go through the experts that they chose, on any layout, and no layout changes their numbers."""

from collections.abc import Callable

import numpy as np
import pytest
from running import Ran, check_ops, run_ops, two_sips
from sampled_cases import sampled

from kb_messages import BenchmarkError, DType
from kb_models.layout import Part, Value
from kb_models.models.builder import Builder
from kb_models.ops import Experts, Router
from kb_models.ops.experts.places import slots_of

CHIP = two_sips()
LAYOUTS = ["batch=sip*cube", "mlp=sip*cube", "experts=sip*cube"]
"""Data, tensor and expert parallel."""


def mixture(rows: int, width: int, n_experts: int, top_k: int, mlp: int) -> Callable[[Builder], object]:
    """Builds a mixture of experts of random rows."""
    return lambda m: m.experts("moe", m.input("x", (rows, width), ("batch", "")), n_experts, top_k, mlp)


def routed(ids: list[list[int]], n_experts: int) -> Callable[[Builder], object]:
    """Builds experts of rows with the choices *ids*, each with an equal share."""

    def build(m: Builder) -> None:
        rows, top_k = np.shape(ids)
        x = m.input("x", (rows, 32), ("batch", ""))
        parts = tuple(Part((part.bounds[0], (0, top_k)), part.cube) for part in x.parts)
        table, shape = np.array(ids, np.int32), (rows, top_k)
        shares = np.full(shape, 1 / top_k, np.float32)
        contents = {"ids": (DType.I32, table), "shares": (DType.F32, shares)}
        values = [
            Value(name=name, shape=shape, dtype=dtype, parts=parts, content=lambda _, array=array: array)
            for name, (dtype, array) in contents.items()
        ]
        m.add(Experts("moe", m.mesh, x, *values, n_experts, 24))

    return build


CASES = [
    ("experts=sip*cube", 7, 40, 2, 2, 33, "f16"),  # two cubes share an expert
    ("experts=sip*cube", 6, 40, 3, 1, 33, "f32"),  # some cubes share, one has an expert alone
    ("experts=cube,batch=sip", 5, 40, 5, 3, 9, "bf16"),  # rows stay in their SIP
    ("experts=sip*cube,batch=sip", 5, 40, 5, 2, 9, "f16"),  # rows cross SIPs
    ("experts=sip,mlp=cube", 1, 40, 4, 4, 30, "f16"),  # both are split
    ("mlp=cube,batch=sip", 3, 40, 4, 2, 30, "f32"),  # partial sums in each SIP
    ("mlp=sip*cube,batch=sip", 3, 40, 4, 2, 3, "f16"),  # more cubes than columns, and rows of both SIPs
]


@pytest.mark.parametrize(("layout", "rows", "width", "experts", "top_k", "mlp", "dtype"), sampled(CASES, 4))
def test_a_mixture_on_any_layout(
    layout: str, rows: int, width: int, experts: int, top_k: int, mlp: int, dtype: str
) -> None:
    check_ops(CHIP, layout, mixture(rows, width, experts, top_k, mlp), dtype)


@pytest.mark.parametrize("topology", ["one_cube", "one_pe"])
def test_a_mixture_without_cubes_to_split_over(topology: str) -> None:
    ran = check_ops(topology, "experts=cube,mlp=cube", mixture(70 if topology == "one_cube" else 2, 40, 5, 2, 24))
    assert [op.name for op in ran.workload.ops] == ["moe.router", "moe"]


def test_data_tensor_and_expert_parallel_give_the_same_numbers() -> None:
    """One block on three layouts of 4 cubes: a norm, a mixture, and a residual. All have the same inputs and weights,
    so that results differ by rounding alone."""

    def block(m: Builder) -> None:
        x = m.input("x", (8, 64), ("batch", ""))
        m.plus("out", x, m.experts("moe", m.rms_norm("norm", x, 1e-5), 4, 2, 48))

    found, ops = {}, {}
    for layout in LAYOUTS:
        ran = check_ops(CHIP, layout, block)
        made = {value.name: value for op in ran.workload._made for value in op.writes}
        found[layout] = {name: ran.read(made[name]) for name in ("out", "moe.router.ids", "norm")}
        ops[layout] = [op.name for op in ran.workload.ops]
    data, *others = (found[layout] for layout in LAYOUTS)
    for other in others:
        np.testing.assert_array_equal(other["moe.router.ids"], data["moe.router.ids"])
        np.testing.assert_allclose(other["out"].astype(float), data["out"].astype(float), rtol=2e-3, atol=4e-3)
    assert ops == {
        LAYOUTS[0]: ["norm", "moe.router", "moe", "out"],
        LAYOUTS[1]: ["norm", "moe.router", "moe", "moe.all_reduce", "out"],
        LAYOUTS[2]: ["norm", "moe.router", "moe", "moe.all_gather", "out"],
    }


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_experts_without_rows_and_one_expert_for_all(layout: str) -> None:
    """All rows choose expert 2, so that the other three have none; then each row chooses others. Both give the numbers
    of their choices, and take different times."""
    one: Ran = check_ops(CHIP, layout, routed([[2]] * 6, 4))
    spread: Ran = check_ops(CHIP, layout, routed([[row % 4] for row in range(6)], 4))
    assert one.latency_ps != spread.latency_ps


def test_more_routed_rows_take_longer_where_their_expert_is() -> None:
    """Four experts on four cubes: the cube of the only expert in use works longer the more rows there are."""
    times = [check_ops(CHIP, LAYOUTS[2], routed([[1]] * rows, 4)).latency_ps["moe"] for rows in (1, 64, 200)]
    assert times == sorted(times)
    assert times[2] > 1.2 * times[0]


def test_a_wrong_slot_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from kb_models.ops.experts import kernels

    def swapped(*given):
        found = slots_of(*given)
        return found._replace(of_pair=found.of_pair[::-1].copy())

    monkeypatch.setattr(kernels, "slots_of", swapped)
    ran = run_ops(CHIP, LAYOUTS[0], routed([[0], [1], [1], [0], [2], [3], [3], [2]], 4))
    assert [each.split(":")[0] for each in ran.failures] == ["moe"]


def test_slots_by_hand() -> None:
    """Rows 10, 11 and 14 choose (1, 0), (2, 1) and (0, 2). Experts 1 and 2 have rows 10 and 11, then 11 and 14."""
    ids, rows = np.array([[1, 0], [2, 1], [0, 2]]), np.array([10, 11, 14])
    found = slots_of(ids, rows, (1, 3))
    assert found.rows.tolist() == [10, 11, 11, 14]
    assert found.first == [0, 2, 4]
    assert found.of_pair.tolist() == [[0, -1], [2, 1], [-1, 3]]


def test_the_router_takes_the_lower_number_of_equal_experts() -> None:
    """Rows of zeros have equal logits."""

    def build(m: Builder) -> None:
        x = m.plus("zero", m.input("x", (3, 16), ("", "")), m.input("y", (3, 16), ("", "")))
        m.add(Router("router", m.mesh, m.activation("none", x, "relu"), 5, 3))

    from kb_models.ops import sums

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sums.FUNCTIONS, "relu", lambda tl, x: x * 0.0)
        ran = run_ops("one_cube", "", build)
    ids, shares = ran.workload._made[-1].writes[1:]
    assert ran.read(ids).tolist() == [[0, 1, 2]] * 3
    np.testing.assert_allclose(ran.read(shares), 1 / 3, rtol=1e-6)


@pytest.mark.parametrize(("rows", "experts"), [(3, 5), (100, 40)])
def test_a_router_by_math_and_by_products(rows: int, experts: int) -> None:
    """Few rows are multiplied by the math units, and 13 rows a PE of 40 experts by the array."""
    check_ops("one_cube", "", lambda m: m.add(Router("router", m.mesh, m.input("x", (rows, 96), ("", "")), experts, 4)))


def test_what_a_router_refuses() -> None:
    with pytest.raises(BenchmarkError, match=r"op moe.router: got 3 of 2 experts, needs 1 to 2 experts a row"):
        check_ops("one_cube", "", mixture(1, 8, 2, 3, 8))
