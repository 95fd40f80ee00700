"""Elementwise ops, softmax and products of blocks give the numbers of numpy, for any places, layout and chip."""

import numpy as np
import pytest
from running import run_ops, two_sips
from sampled_cases import sampled

from kb_models.layout import Value
from kb_models.models.builder import Builder
from kb_models.ops.block_product import Block, BlockProduct
from kb_models.ops.elementwise import NOWHERE, Elementwise, Operand, Places, _breaks
from kb_models.ops.expression import FUNCTIONS, Number, Step, bounded
from kb_models.ops.softmax import Softmax


def at(*numbers: int) -> Places:
    return np.array(numbers, np.int64)


def result(m: Builder, name: str, shape: tuple[int, int], axes: tuple[str, str] = ("tokens", "mlp")) -> Value:
    return Value(name=name, shape=shape, dtype=m.dtype, parts=m.mesh.parts(shape, axes), axes=axes)


CASES: dict[str, tuple[list[Places], list[Places], list[Step]]] = {
    "sum": ([np.arange(9), np.arange(9)], [np.arange(20), np.arange(20)], [0, 1, "add"]),
    "a row for all": ([np.arange(9), at(*[4] * 9)], [np.arange(20), np.arange(20)], [0, 1, "mul", Number(0.5), "sub"]),
    "a column for all": ([np.arange(9), np.arange(9)], [np.arange(20), at(*[7] * 20)], [0, 1, "div"]),
    "heads": ([np.arange(9), at(0, 0, 0, 1, 1, 1, 2, 2, 2)], [np.arange(20), np.arange(20) % 5], [0, 1, "max"]),
    "repeated": ([np.arange(9) // 2, np.arange(9)], [np.arange(20) // 4, np.arange(20)[::-1].copy()], [0, 1, "min"]),
    "copied": ([at(8, 0, 1, 2, 5, 5, 5, 4, 3)], [np.arange(20)], [0]),
    "together": (
        [np.arange(9), np.arange(9)],
        [at(*range(12), *[NOWHERE] * 8), at(*[NOWHERE] * 12, *range(3, 11))],
        [0],
    ),
}


LAYOUTS = ["", "mlp=sip*cube", "tokens=sip*cube", "tokens=sip,mlp=cube"]


@pytest.mark.parametrize(("case", "layout"), sampled([(case, layout) for case in CASES for layout in LAYOUTS], 10))
def test_operands_anywhere(case: str, layout: str) -> None:
    rows, cols, steps = CASES[case]

    def build(m: Builder) -> None:
        given = [m.input(f"x{n}", (9, 20), ("tokens", "mlp")) for n in range(len(rows))]
        operands = [Operand(*each) for each in zip(given, rows, cols, strict=True)]
        y = result(m, "y", (9, 20))
        m.add(Elementwise("y", m.mesh, operands, steps, y))

    ran = run_ops(two_sips() if layout else "one_cube", layout, build, "f32")
    assert not ran.failures
    arrays = [ran.read(each.value).astype(np.float64) for each in ran.workload._made[0].operands]  # type: ignore[attr-defined]
    found = ran.read(ran.workload._made[0].writes[0])
    if case == "together":
        expected = np.concatenate([arrays[0][:, :12], arrays[1][:, 3:11]], axis=1)
    else:
        expected, _ = bounded([a[np.ix_(r, c)] for a, r, c in zip(arrays, rows, cols, strict=True)], steps)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_within_its_bound(name: str) -> None:
    steps: list[Step] = [0, 1, name] if FUNCTIONS[name].n == 2 else [0, "abs", name] if name == "sqrt" else [0, name]

    def build(m: Builder) -> None:
        given = [m.input(f"x{n}", (5, 33), ("tokens", "")) for n in range(FUNCTIONS[name].n)]
        operands = [Operand(each, np.arange(5), np.arange(33)) for each in given]
        m.add(Elementwise("y", m.mesh, operands, steps, result(m, "y", (5, 33), ("tokens", ""))))

    for dtype in ("f32", "f16"):
        assert not run_ops("one_cube", "", build, dtype).failures


@pytest.mark.parametrize(
    ("places", "found"),
    [
        ([0, 1, 2, 3], []),
        ([5, 5, 5], []),
        ([0, 0, 1, 1, 2, 2], [2, 4]),
        ([0, 1, 2, 0, 1, 2], [3]),
        ([0, 0, 0, 1, 2, 3], [3]),
        ([3, 2, 1], [1, 2]),
        ([0], []),
        ([NOWHERE, NOWHERE, 0, 1], [2]),
    ],
)
def test_runs_of_places(places: list[int], found: list[int]) -> None:
    assert _breaks(at(*places)) == found


@pytest.mark.parametrize(
    ("rows", "parts", "width", "layout"), [(1, 1, 5, ""), (37, 4, 11, ""), (6, 8, 9, "heads=sip*cube")]
)
def test_softmax_of_parts_of_rows(rows: int, parts: int, width: int, layout: str) -> None:
    def build(m: Builder) -> None:
        shape = (rows, parts * width)
        x = m.input("x", shape, ("tokens", ""))
        places = m.mesh.parts(shape, ("tokens", "heads"), (1, width))
        x = Value(name="x", shape=shape, dtype=m.dtype, parts=places, axes=("tokens", "heads"), content=x.content)
        m.add(Softmax("y", m.mesh, x, width))

    ran = run_ops(two_sips() if layout else "one_cube", layout, build, "f16")
    assert not ran.failures
    total = ran.read(ran.workload._made[0].writes[0]).astype(np.float64).reshape(-1, width).sum(axis=1)
    np.testing.assert_allclose(total, 1, atol=2e-3)


@pytest.mark.parametrize("layout", ["", "heads=sip*cube"])
@pytest.mark.parametrize(
    ("queries", "keys", "size", "heads", "batch"), [(7, 9, 5, 4, 2), (1, 3, 8, 3, 1), (70, 6, 4, 1, 1)]
)
def test_products_of_queries_and_keys(queries: int, keys: int, size: int, heads: int, batch: int, layout: str) -> None:
    def build(m: Builder) -> None:
        def value(name: str, rows: int, width: int, written: bool = False) -> Value:
            shape = (batch * rows, heads * width)
            content = None if written else m.input(name, shape, ("tokens", "")).content
            places = m.mesh.parts(shape, ("tokens", "heads"), (1, width))
            return Value(name=name, shape=shape, dtype=m.dtype, parts=places, axes=("tokens", "heads"), content=content)

        def place(rows: int, width: int, b: int, h: int) -> tuple[tuple[int, int], tuple[int, int]]:
            return (b * rows, (b + 1) * rows), (h * width, (h + 1) * width)

        each = [(b, h) for b in range(batch) for h in range(heads)]
        blocks = [Block(place(queries, size, *i), place(keys, size, *i), place(queries, keys, *i), True) for i in each]
        x, y, z = value("x", queries, size), value("y", keys, size), value("z", queries, keys, True)
        m.add(BlockProduct("z", m.mesh, x, y, blocks, z))

    ran = run_ops(two_sips() if layout else "one_cube", layout, build, "f32")
    assert not ran.failures
    x, y, z = (
        ran.read(each).astype(np.float64) for each in (*ran.workload._made[0].reads, *ran.workload._made[0].writes)
    )
    q, k = (a.reshape(batch, -1, heads, size) for a in (x, y))
    expected = np.einsum("bqhd,bkhd->bqhk", q, k).reshape(z.shape)
    np.testing.assert_allclose(z, expected, rtol=1e-5, atol=1e-5)
