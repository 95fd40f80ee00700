"""What tells launches apart that repeat others: all that a kernel reads beside its tensors."""

import math
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb_engine import Language
from kb_engine.program.handles import CompositeHandle
from kb_messages import TileShape

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "tests_integration" / "closed")
    shared = import_module("closed_launches")
N_PES, built, product, repeated, triples = (
    vars(shared)[name] for name in ("N_PES", "built", "product", "repeated", "triples")
)


def times_pi(tl: Language, parts: Any) -> None:
    for _ in range(math.ceil(math.pi)):
        product(tl, parts)


def times_by_numpy(tl: Language, parts: Any) -> None:
    for _ in range(min(2, max(1, int(np.pi)))):
        product(tl, parts)


@pytest.mark.parametrize(("kernel", "module"), [(times_pi, math), (times_by_numpy, np)])
def test_what_a_kernel_reads_of_a_module_decides(kernel: Any, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, host = built("closed", True)
    tensors, took = triples(host), []
    for constant in (1.0, 2.0, 1.0):
        monkeypatch.setattr(module, "pi", constant)
        result = host.launch(kernel, tensors, pes=range(N_PES))
        took.append(result.response_ps - result.call_ps)
    assert took[0] == took[2] < took[1]
    assert repeated(engine) == 1


def times_a_file(tl: Language, parts: Any) -> None:
    for _ in range(int(np.load("times.npy"))):
        product(tl, parts)


def test_a_kernel_that_reads_a_file_by_numpy_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    engine, host = built("closed", True)
    tensors, took = triples(host), []
    for times in (1, 2, 1):
        np.save("times.npy", times)
        result = host.launch(times_a_file, tensors, pes=range(N_PES))
        took.append(result.response_ps - result.call_ps)
    assert took[0] == took[2] < took[1]
    assert repeated(engine) == 0


def times_a_builtin(tl: Language, parts: Any) -> None:
    for _ in range(abs(-1)):
        product(tl, parts)


@pytest.mark.parametrize("module", ["builtins", __name__])
def test_what_is_in_place_of_a_builtin_decides(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, host = built("closed", True)
    tensors, took = triples(host), []
    for number in (1, 2, 1):
        monkeypatch.undo()
        if number == 2:
            monkeypatch.setattr(f"{module}.abs", lambda _: 2, raising=False)
        result = host.launch(times_a_builtin, tensors, pes=range(N_PES))
        took.append(result.response_ps - result.call_ps)
    assert took[0] == took[2] < took[1]
    assert repeated(engine) == 1


def test_a_method_of_the_language_that_a_program_replaced_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, host = built("closed", True)
    tensors, calls, before = triples(host), list[object](), Language.wait

    def counted(tl: Language, *handles: Any) -> None:
        calls.append(handles)
        before(tl, *handles)

    host.launch(product, tensors, pes=range(N_PES))
    monkeypatch.setattr(Language, "wait", counted)
    for _ in range(2):
        host.launch(product, tensors, pes=range(N_PES))
    assert (len(calls), repeated(engine)) == (2 * N_PES, 0)
    monkeypatch.undo()
    host.launch(product, tensors, pes=range(N_PES))
    assert repeated(engine) == 1


def product_by_handle(tl: Language, parts: Any) -> None:
    a, b, c = parts[tl.program_id()]
    handle: Any = tl.composite("gemm", a, b, out=c)
    tl.wait(handle)
    for _ in range(handle.TURNS):
        product(tl, parts)


def test_what_a_program_put_into_the_class_of_a_handle_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, host = built("closed", True)
    tensors, took = triples(host), []
    for turns in (1, 2, 1):
        monkeypatch.setattr(CompositeHandle, "TURNS", turns, raising=False)
        result = host.launch(product_by_handle, tensors, pes=range(N_PES))
        took.append(result.response_ps - result.call_ps)
    assert took[0] == took[2] < took[1]
    assert repeated(engine) == 1


def product_by_tile(tl: Language, parts: Any, tile: Any) -> None:
    for _ in range(tile.turns):
        product(tl, parts)


def product_by_equality(tl: Language, parts: Any, tile: Any) -> None:
    for _ in range(1 if tile == TileShape(1, 1, 1) else 2):
        product(tl, parts)


@pytest.mark.parametrize(
    ("kernel", "name", "values"),
    [
        (product_by_tile, "turns", [1, 2, 1]),
        (product_by_tile, "turns", [property(lambda _: 1), property(lambda _: 2), 1]),
        (product_by_equality, "__eq__", [lambda *_: True, lambda *_: False, lambda *_: True]),
    ],
)
def test_what_a_program_put_into_the_class_of_an_argument_decides(
    kernel: Any, name: str, values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, host = built("closed", True)
    tensors, took = triples(host), []
    for value in values:
        monkeypatch.setattr(TileShape, name, value, raising=False)
        result = host.launch(kernel, tensors, TileShape(1, 2, 3), pes=range(N_PES))
        took.append(result.response_ps - result.call_ps)
    assert took[0] == took[2] < took[1]
    assert repeated(engine) == (values == [1, 2, 1])
