"""`tl.reduce` and `tl.associative_scan` with functions of the kernel's own, against numpy, element after element."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kb_dataexec import Executor, MemoryLogWriter, numpy_dtype, sanitize
from kb_engine import Engine, Host, read_tensor
from kb_messages import DType, KbError
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]
Array = npt.NDArray[Any]
RNG = np.random.default_rng(5)
KINDS = {numpy_dtype(dtype): dtype for dtype in DType}


def execute(kernel: Callable[..., None], arrays: list[Array], mode: str = "tile") -> list[Array]:
    """What *kernel* leaves in all its arguments."""
    engine = Engine(load_topology(ROOT / "topologies/one_pe.yaml"), MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    tensors = [host.tensor(f"t{number}", each, KINDS[each.dtype]) for number, each in enumerate(arrays)]
    host.launch(kernel, *tensors)
    log = engine.close_log()
    assert sanitize(log) == []
    assert engine.initial_memory is not None
    after = Executor(log, engine.initial_memory, mode, fuse_from=2).run()  # type: ignore[arg-type]
    return [read_tensor(after, tensor) for tensor in tensors]


def followed(factor: Any, value: Any, further: Any, added: Any) -> tuple[Any, Any]:
    """Two steps of v -> factor * v + value as one. The order counts."""
    return factor * further, value * further + added


def scanned(combine: Callable[..., Any], arrays: list[Array], axis: int, reverse: bool = False) -> list[Array]:
    turned = [np.moveaxis(np.flip(each, axis) if reverse else each, axis, 0) for each in arrays]
    rows = [[each[0] for each in turned]]
    for at in range(1, len(turned[0])):
        found = combine(*rows[-1], *(each[at] for each in turned))
        rows.append(list(found) if isinstance(found, tuple) else [found])
    outs = [np.moveaxis(np.stack([row[n] for row in rows]), 0, axis) for n in range(len(arrays))]
    return [np.flip(each, axis) if reverse else each for each in outs]


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((1,), 0), ((5,), 0), ((3, 7), 1), ((6, 5), 0), ((2, 3, 5), 1), ((3, 4, 2), 0), ((4, 16), 1)]
)
def test_linear_recurrences_of_any_length_along_any_axis(shape: tuple[int, ...], axis: int, mode: str) -> None:
    def kernel(tl: Any, a: Any, b: Any, y: Any, z: Any, last: Any) -> None:
        pair = tl.load(a), tl.load(b)
        tl.store(y, tl.associative_scan(pair, axis, followed)[1])
        tl.store(z, tl.associative_scan(pair, axis, followed, reverse=True)[1])
        tl.store(last, tl.reduce(pair, axis, followed)[1])

    a, b = RNG.uniform(-1, 1, (2, *shape)).astype(np.float32)
    end = np.zeros((*shape[:axis], 1, *shape[axis + 1 :]), np.float32)
    *_, y, z, last = execute(kernel, [a, b, np.zeros_like(a), np.zeros_like(a), end], mode)
    exact = [each.astype(np.float64) for each in (a, b)]
    ahead, back = scanned(followed, exact, axis)[1], scanned(followed, exact, axis, reverse=True)[1]
    for got, expected in ((y, ahead), (z, back), (last, ahead.take([-1], axis))):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_results_have_the_dtypes_of_the_values() -> None:
    def kernel(tl: Any, x: Any, i: Any, y: Any, j: Any) -> None:
        found = tl.reduce((tl.load(x), tl.load(i)), None, lambda a, m, b, n: (a + b * 1.0, m ^ n), keep_dims=False)
        assert [each.shape for each in found] == [(), ()]
        assert [str(each.dtype) for each in found] == ["f16", "i8"]
        tl.store(y, found[0].reshape(1))
        tl.store(j, found[1].reshape(1))

    x, i = RNG.integers(-8, 8, (3, 5)).astype(np.float16), RNG.integers(-100, 100, (3, 5)).astype(np.int8)
    *_, y, j = execute(kernel, [x, i, np.zeros(1, np.float16), np.zeros(1, np.int8)])
    assert (y[0], j[0]) == (x.sum(), np.bitwise_xor.reduce(i.ravel()))


def test_known_integers_stay_known() -> None:
    def kernel(tl: Any, y: Any) -> None:
        largest = tl.reduce(tl.arange(0, 11) * 3, 0, tl.maximum)
        assert largest[0] == 30
        tl.store(y, tl.associative_scan(tl.arange(0, 11), 0, lambda a, b: a + b))

    assert execute(kernel, [np.zeros(11, np.int32)])[0].tolist() == np.arange(11).cumsum().tolist()


REFUSALS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "shapes": (
        lambda tl, x: tl.reduce((x, tl.sum(x, axis=1)), 1, followed),
        "got tl.reduce of 2 x 6, 2 x 1, needs values of one shape",
    ),
    "no values": (lambda tl, x: tl.associative_scan((), 0, followed), "of no values, needs values of one shape"),
    "axis": (lambda tl, x: tl.reduce(x, 2, tl.maximum), "got tl.reduce along axis 2, needs an axis from 0 to 1"),
    "results": (
        lambda tl, x: tl.reduce(x, 1, lambda a, b: (a, b)),
        "got a combine function of 1 values that returns 2, needs as many",
    ),
    "shape of a result": (
        lambda tl, x: tl.associative_scan(x, 1, lambda a, b: tl.sum(a + b, axis=1)),
        "got a combine function whose result is 2 x 1, needs 2 x 4",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_does_not_fit_is_refused(name: str) -> None:
    misuse, said = REFUSALS[name]

    def kernel(tl: Any, x: Any) -> None:
        misuse(tl, tl.load(x))

    with pytest.raises(KbError) as caught:
        execute(kernel, [np.ones((2, 6), np.float32)])
    assert said in str(caught.value)
