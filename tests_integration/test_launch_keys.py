"""Launches whose kernels can tell them apart are not taken for one another."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from kb_engine import DType, Engine, Language, TensorRef, TileShape
from kb_messages import LoopOrder

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "tests_integration" / "closed")
    shared = import_module("closed_launches")
K, N_PES, TILE, built, found, half_product, product, repeated, triples = (
    vars(shared)[name]
    for name in ("K", "N_PES", "TILE", "built", "found", "half_product", "product", "repeated", "triples")
)


def test_other_arguments_are_another_launch() -> None:
    engine, host = built(log=False)
    tensors = triples(host)
    for k in (32, 64, 32, 64):
        host.launch(half_product, tensors, k, pes=range(N_PES))
    assert repeated(engine) == 2


def test_tensors_of_other_names_are_another_place_for_the_same_launch() -> None:
    def run(exact: str) -> tuple[Any, Engine]:
        engine, host = built(exact)
        launches = [host.launch(product, triples(host, f" of layer {layer}"), pes=range(N_PES)) for layer in range(4)]
        return found(engine, launches), engine

    mine, engine = run("closed")
    assert repeated(engine) == 3
    assert mine == run("events")[0]


def test_a_kernel_that_reads_the_name_of_a_tensor_runs() -> None:
    def for_first_layer(tl: Language, tensors: list[list[TensorRef]]) -> None:
        k = K if "first" in str(tensors[tl.program_id()][0]) else K // 2
        half_product(tl, tensors, k)

    def run(exact: str) -> list[int]:
        engine, host = built(exact, log=False)
        sets = [triples(host, f" of the {name} layer") for name in ("first", "first", "next", "last")]
        launches = [host.launch(for_first_layer, tensors, pes=range(N_PES)) for tensors in sets]
        assert exact == "events" or repeated(engine) == 0
        return [each.end_ps - each.start_ps for each in launches]

    took = run("closed")
    assert took[0] > took[2]
    assert took == run("events")


def test_one_reference_in_two_places_is_another_launch() -> None:
    def alike(tl: Language, first: TensorRef, second: TensorRef, tensors: list[list[TensorRef]]) -> None:
        half_product(tl, tensors, K if first is second else K // 2)

    def run(exact: str) -> list[int]:
        _, host = built(exact, log=False)
        tensors = triples(host)
        one, other = tensors[0][0].ref, tensors[0][0].ref
        pairs = (one, one), (one, one), (one, other), (one, one)
        launches = [host.launch(alike, *pair, tensors, pes=range(N_PES)) for pair in pairs]
        return [each.end_ps - each.start_ps for each in launches]

    assert run("closed") == run("events")


def test_another_constant_of_the_module_is_another_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(exact: str) -> list[int]:
        engine, host = built(exact, log=False)
        tensors, took = triples(host), []
        for k in (64, 64, 32, 64):
            with monkeypatch.context() as patch:
                patch.setitem(vars(shared), "TILE", TileShape(k, k, 32))
                launch = host.launch(product, tensors, pes=range(N_PES))
            took.append(launch.end_ps - launch.start_ps)
        assert exact == "events" or repeated(engine) == 2
        return took

    assert run("closed") == run("events")


def _step(k: int) -> Callable[..., None]:
    def step(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
        tl.wait(tl.composite("gemm", a[:, :k], b[:k, :], out=c, tile=TILE))

    return step


FIRST, SECOND = _step(32), _step(64)
LAST = FIRST


def three_steps(tl: Language, tensors: list[list[TensorRef]]) -> None:
    for step in (FIRST, SECOND, LAST):
        step(tl, *tensors[tl.program_id()])


def by_name(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, *, k: int = 32, n: int = 64) -> None:
    tl.wait(tl.composite("gemm", a[:, :k], b[:k, :n], out=c[:, :n], tile=TILE))


def named_step(tl: Language, tensors: list[list[TensorRef]]) -> None:
    by_name(tl, *tensors[tl.program_id()])


def largest_or_least(tl: Language, tensors: list[list[TensorRef]]) -> None:
    a, b, c = tensors[tl.program_id()]
    k = max(64, min(64, 80))
    tl.wait(tl.composite("gemm", a[:, :k], b[:k, :], out=c, tile=TILE))


def thirty_two(*_: int) -> int:
    return 32


class Scaled(np.float64):
    k = 32


def scaled(tl: Language, tensors: list[list[TensorRef]], x: Scaled) -> None:
    a, b, c = tensors[tl.program_id()]
    tl.wait(tl.composite("gemm", a[:, : x.k], b[: x.k, :], out=c, tile=TILE))


@pytest.mark.parametrize(
    ("kernel", "arguments", "owner", "before", "after"),
    [
        (three_steps, [], globals(), {}, {"LAST": SECOND}),
        (named_step, [], by_name, {"k": 32, "n": 64}, {"n": 32, "k": 64}),
        (largest_or_least, [], globals(), {"max": thirty_two}, {"min": thirty_two}),
        (scaled, [Scaled(1)], Scaled, {"k": 32}, {"k": 64}),
    ],
)
def test_what_a_kernel_uses_has_its_name(
    monkeypatch: pytest.MonkeyPatch,
    kernel: Callable[..., None],
    arguments: list[Any],
    owner: Any,
    before: dict[str, Any],
    after: dict[str, Any],
) -> None:
    """Functions of one code that exchange their places, defaults by name, names of builtins, attributes of a class."""

    def run(exact: str) -> tuple[Any, ...]:
        engine, host = built(exact)
        tensors, launches = triples(host), []
        for values in (before, before, before, after, after):
            with monkeypatch.context() as patch:
                if isinstance(owner, FunctionType):
                    patch.setattr(owner, "__kwdefaults__", values)
                    values = {}
                for name, value in values.items():
                    if owner is globals():
                        patch.setitem(owner, name, value)
                    else:
                        patch.setattr(owner, name, value)
                launches.append(host.launch(kernel, tensors, *arguments, pes=range(N_PES)))
        return found(engine, launches)

    assert run("closed") == run("events")


def test_one_reference_twice_is_another_launch_than_two_equal_ones() -> None:
    def chosen(tl: Language, tensors: list[list[TensorRef]], x: TensorRef, y: TensorRef, z: Any) -> None:
        a, b, c = tensors[tl.program_id()]
        k = 32 if x is y or z["x"] is z["y"] else 64
        tl.wait(tl.composite("gemm", a[:, :k], b[:k, :], out=c, tile=TILE))

    def run(exact: str) -> tuple[Any, ...]:
        engine, host = built(exact)
        tensors = triples(host)
        x, y = tensors[0][0].ref, tensors[0][0].ref
        pair, apart = {"x": x, "y": x}, {"x": x, "y": y}
        cases = [(x, x, apart)] * 3 + [(x, y, apart)] * 3 + [(x, y, pair)] * 3
        return found(engine, [host.launch(chosen, tensors, *each, pes=range(N_PES)) for each in cases])

    assert run("closed") == run("events")


def by_identity(tl: Language, tensors: list[list[TensorRef]], x: object, y: object) -> None:
    half_product(tl, tensors, 32 if x is y else 64)


def by_constant(tl: Language, tensors: list[list[TensorRef]], x: object, _: object) -> None:
    constant = "a constant"
    half_product(tl, tensors, 32 if x is TILE or x is constant else 64)


def by_membership(tl: Language, tensors: list[list[TensorRef]], x: object, y: object) -> None:
    half_product(tl, tensors, 32 if x in (1, y) else 64)


A_CONSTANT = by_constant.__code__.co_consts[[*by_constant.__code__.co_consts].index("a constant")]


@pytest.mark.parametrize(
    ("kernel", "one", "other"),
    [
        (by_identity, float("1.5"), float("1.5")),
        (by_identity, int("100000"), int("100000")),
        (by_identity, "".join("ab"), "".join("ab")),
        (by_identity, TileShape(32, 32, 32), TileShape(32, 32, 32)),
        (by_identity, np.float32(3), np.float32(3)),
        (by_identity, slice(1), slice(1)),
        (by_constant, TILE, TileShape(32, 32, 32)),
        (by_constant, A_CONSTANT, "".join(("a ", "constant"))),
        (by_membership, float("nan"), float("nan")),
        (by_membership, np.float32("nan"), np.float32("nan")),
    ],
)
def test_one_value_twice_is_another_launch_than_two_equal_ones(
    kernel: Callable[..., None], one: object, other: object
) -> None:
    def run(exact: str) -> tuple[Any, ...]:
        engine, host = built(exact)
        tensors = triples(host)
        pairs = [(one, one)] * 2 + [(other, one)] * 2 + [(one, one)]
        launches = [host.launch(kernel, tensors, *pair, pes=range(N_PES)) for pair in pairs]
        assert exact == "events" or repeated(engine) == 3
        return found(engine, launches)

    assert one is not other
    assert run("closed") == run("events")


class Sizes(NamedTuple):
    k: int
    other: int = 0
    least = 32

    @property
    def depth(self) -> int:
        return max(self.k, self.least)


class OtherSizes(NamedTuple):
    other: int
    k: int


def by_field(tl: Language, tensors: list[list[TensorRef]], sizes: Any) -> None:
    half_product(tl, tensors, sizes.k)


def by_property(tl: Language, tensors: list[list[TensorRef]], sizes: list[Sizes]) -> None:
    half_product(tl, tensors, sizes[0].depth)


def test_named_tuples_are_told_by_their_class_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(exact: str) -> tuple[Any, ...]:
        engine, host = built(exact)
        tensors = triples(host)
        given = [Sizes(32, 64), Sizes(32, 64), Sizes(64, 32), OtherSizes(64, 32), OtherSizes(32, 64), Sizes(32, 64)]
        launches = [host.launch(by_field, tensors, sizes, pes=range(N_PES)) for sizes in given]
        for least in (32, 32, 64, 32):
            monkeypatch.setattr(Sizes, "least", least)
            launches.append(host.launch(by_property, tensors, [Sizes(16)], pes=range(N_PES)))
        assert exact == "events" or repeated(engine) == 4
        return found(engine, launches)

    assert run("closed") == run("events")


@dataclass
class Depths:
    k: int
    other: int = 0
    least: ClassVar[int] = 32

    @property
    def depth(self) -> int:
        return max(self.k, self.least)


@dataclass
class OtherDepths(Depths):
    pass


@dataclass
class Plan:
    depths: list[int]

    def take(self) -> int:
        return self.depths.pop(0)


def by_turns(tl: Language, tensors: list[list[TensorRef]], plan: Plan) -> None:
    half_product(tl, tensors, plan.take())


def test_a_method_that_takes_an_element_runs_in_each_program() -> None:
    def run(exact: str) -> tuple[Any, ...]:
        engine, host = built(exact)
        tensors, plan = triples(host), Plan([32, 64] * 2 * N_PES)
        launches = [host.launch(by_turns, tensors, plan, pes=range(N_PES)) for _ in range(3)]
        assert exact == "events" or repeated(engine) == 0
        assert len(plan.depths) == N_PES
        return found(engine, launches)

    assert run("closed") == run("events")


def by_equality(tl: Language, tensors: list[list[TensorRef]], sizes: tuple[Any, Any]) -> None:
    half_product(tl, tensors, 64 if sizes[0] == sizes[1] else 32)


def test_values_of_dataclasses_are_told_by_their_class_and_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(exact: str) -> tuple[Any, ...]:
        engine, host = built(exact)
        tensors, changed = triples(host), Depths(32)
        given = [Depths(32, 64), Depths(32, 64), Depths(64, 32), OtherDepths(64, 32), Depths(32, 64)]
        launches = [host.launch(by_field, tensors, sizes, pes=range(N_PES)) for sizes in given]
        for k in (32, 64, 32):
            changed.k = k
            launches.append(host.launch(by_field, tensors, changed, pes=range(N_PES)))
        for least in (32, 32, 64, 32):
            monkeypatch.setattr(Depths, "least", least)
            launches.append(host.launch(by_property, tensors, [Depths(16)], pes=range(N_PES)))
        one, pairs = Depths(1), [(Depths(1), Depths(1)), (Depths(1), Depths(2)), (Depths(1), OtherDepths(1))]
        launches += [host.launch(by_equality, tensors, pair, pes=range(N_PES)) for pair in [*pairs, (one, one)]]
        assert exact == "events" or repeated(engine) == 5
        return found(engine, launches)

    assert run("closed") == run("events")


def by_enums(tl: Language, tensors: list[list[TensorRef]], dtype: DType) -> None:
    a, b, c = tensors[tl.program_id()]
    k = 32 if dtype is DType.F16 else 64
    tl.wait(tl.composite("gemm", a[:, :k], b[:k, :], out=c, tile=TILE, loop_order=LoopOrder.NMK))


def test_members_of_enums_of_kernbench_are_told() -> None:
    def run(exact: str) -> tuple[Any, ...]:
        engine, host = built(exact)
        tensors = triples(host)
        dtypes = [DType.F16, DType.F16, DType.F32, DType.F32]
        launches = [host.launch(by_enums, tensors, dtype, pes=range(N_PES)) for dtype in dtypes]
        assert exact == "events" or repeated(engine) == 2
        return found(engine, launches)

    assert run("closed") == run("events")


def test_a_kernel_whose_parts_cannot_be_told_runs() -> None:
    """A name of the author's without a value yet, and a dict that holds itself."""

    def run(exact: str) -> tuple[Any, ...]:
        def unfinished(tl: Language, tensors: list[list[TensorRef]], n_more: dict[str, Any]) -> None:
            product(tl, tensors)
            if len(n_more) > 1:
                later()

        engine, host = built(exact)
        tensors = triples(host)
        itself: dict[str, Any] = {}
        itself["itself"] = itself
        launches = [host.launch(unfinished, tensors, {}, pes=range(N_PES)) for _ in range(3)]
        launches += [host.launch(takes_all, tensors, itself, pes=range(N_PES)) for _ in range(3)]
        result = found(engine, launches)
        later = None
        return result

    def takes_all(tl: Language, tensors: list[list[TensorRef]], _: dict[str, Any]) -> None:
        product(tl, tensors)

    assert run("closed") == run("events")


def test_a_tensor_in_the_place_of_two_is_another_launch() -> None:
    def run(exact: str) -> tuple[Any, ...]:
        engine, host = built(exact)
        apart = triples(host)
        joined = [[a, b, b] for a, b, _ in apart]
        return found(engine, [host.launch(product, each, pes=range(N_PES)) for each in (apart, apart, joined, apart)])

    assert run("closed") == run("events")
