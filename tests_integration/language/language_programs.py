"""Random programs: steps that fit one another, and what numpy makes of them. A seed gives one case on every machine."""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

import numpy as np
from language_layouts import BITS, PAIRS
from language_model import Model
from language_steps import ATOMICS, COUNTS, SIDE, Step
from language_values import (
    COMPARISONS,
    FLOAT_BINARY,
    HALF_ULP,
    INT_BINARY,
    LIPSCHITZ,
    MONOTONE,
    STEPWISE,
    Value,
    integers,
)

from kb_dataexec import numpy_dtype
from kb_messages import DType

SIZES = ((4, 4), (4, 4), (4, 4), (8, 8), (2, 8), (8, 2), (1, 12), (5, 7), (4, 16), (1, 4), (4, 1), (16, 16))
SHAPES = (
    *((16,), (2, 8), (4, 4), (1, 16), (16, 1), (4, 2, 2), (2, 2, 4)),
    *((64,), (4, 16), (8, 8), (2, 4, 8), (12,), (35,), (256,), (2, 128)),
)
STEPS = (
    *("load", "load", "load", "masked", "unary", "unary", "binary", "binary", "binary", "scalar", "index"),
    *(
        "reduction",
        "reduction",
        "total",
        "scan",
        "convert",
        "where",
        "under_mask",
        "view",
        "view",
        "dot",
        "dot",
        "sums",
        "sums",
        "sums",
        "stream",
        "ragged",
        "ragged",
    ),
    *("ordered", "gathered", "extreme", "binned", "paired", "halved", "retyped", "turned", "bits", "shifted", "random"),
    *("store", "store", "store", "gemm", "atomic", "atomic", "count", "look", "capture", "free", "drop", "drop"),
)
REDUCTIONS = "sum", "max", "min", "argmax", "argmin"
REPEATED_STEPS = (
    *("load", "masked", "unary", "binary", "scalar", "reduction", "total", "scan", "under_mask", "view", "dot", "sums"),
    *("stream", "ragged", "ordered", "paired", "halved", "turned", "store", "gemm", "drop"),
)
"""Steps of floats that look at no value: programs that have no others are repeated from a template."""
ATTEMPTS = 12
"""Steps drawn for each that is kept, at most."""


class Case(NamedTuple):
    """The steps of every program, how many programs there are, the inputs, and the models that played the steps.

    A case that `is_repeated` has programs that a template can play, and more of them.
    """

    seed: int
    steps: tuple[Step, ...]
    inputs: dict[str, np.ndarray]
    models: list[Model]
    float_dtype: DType
    int_dtype: DType
    is_repeated: bool


def draw(seed: int) -> Case:
    """The case of *seed*."""
    rng = random.Random(seed)
    floats, ints = rng.choice(list(HALF_ULP)), rng.choice((DType.I8, DType.I8, DType.I16, DType.I32, DType.U8))
    is_repeated = rng.random() < 0.25
    programs = rng.choice((5, 9) if is_repeated else (1, 1, 2, 3, 6))
    inputs = inputs_of(rng, floats, ints, programs)
    models = [Model(_memory(inputs, number, floats, ints)) for number in range(programs)]
    steps: list[Step] = []
    for _ in range(rng.randint(6, 32)):
        for _ in range(ATTEMPTS):
            step = _step(rng, models[0])
            if step is not None and (_may_be_repeated(step) or not is_repeated) and _play(models, step):
                steps.append(step)
                break
    for number in range(len(models[0].values)):
        step = ("store", number, *_place(rng, models[0].values[number]), False, None)
        if rng.random() < 0.4 and _play(models, step):
            steps.append(step)
    return Case(seed, tuple(steps), inputs, models, floats, ints, is_repeated)


def _may_be_repeated(step: Step) -> bool:
    is_of_floats = step[0] not in ("load", "masked", "store") or step[2 if step[0] == "store" else 1] in ("f", "y")
    return step[0] in REPEATED_STEPS and is_of_floats and step[1] not in (*COMPARISONS, "isnan", "argmax", "argmin")


def inputs_of(rng: random.Random, floats: DType, ints: DType, programs: int) -> dict[str, np.ndarray]:
    """The tensors of *programs* programs, with numbers that *rng* gives."""
    data = np.random.default_rng(rng.randrange(2**32))
    shape = (programs * SIDE, SIDE)
    quarters = data.integers(-16, 17, shape) / 4
    f = quarters if rng.random() < 0.6 else data.standard_normal(shape)
    low, high = (0, 200) if ints is DType.U8 else (-100, 100)
    return {
        "f": f.astype(np.float32).astype(numpy_dtype(floats)),
        "n": data.integers(low, high, shape).astype(numpy_dtype(ints)),
        "ids": np.arange(SIDE, dtype=np.int32),
        "y": np.zeros(shape, numpy_dtype(floats)),
        "z": np.zeros(shape, numpy_dtype(ints)),
        "counts": np.zeros((len(COUNTS), SIDE), np.int32),
    }


def _memory(inputs: dict[str, np.ndarray], program: int, floats: DType, ints: DType) -> dict[str, Value]:
    part = slice(program * SIDE, (program + 1) * SIDE)
    memory = {}
    for name in "fnyz":
        array = inputs[name][part]
        if name in "fy":
            memory[name] = Value(array.astype(np.float64), np.zeros(array.shape), floats)
        else:
            memory[name] = integers(array.astype(np.int64), ints)
    return memory


def _play(models: list[Model], step: Step) -> bool:
    """Play *step* in all programs, or in none."""
    before = [(list(model.values), dict(model.memory), list(model.seen), model.shared) for model in models]
    if all(model.attempt(step) for model in models):
        return True
    for model, (values, memory, seen, shared) in zip(models, before, strict=True):
        model.values, model.memory, model.seen, model.shared = values, memory, seen, shared
    return False


def _step(rng: random.Random, model: Model) -> Step | None:
    name = rng.choice(STEPS) if model.values else "load"
    number = rng.randrange(len(model.values) or 1)
    second, third = (_partner(rng, model, number) for _ in range(2))
    if name in ("load", "masked"):
        tensor = rng.choice("fffnyz")
        key = _key(rng, rng.choice(SIZES), rng.choice(("rectangle", "rectangle", "strided", "listed", "affine")))
        if name == "load":
            return name, tensor, key, tensor in "fn" and rng.random() < 0.4
        return name, tensor, key, _mask(rng, key[3]), rng.choice((0, 1, 3, math.nan, math.nan, math.nan))
    if name == "store":
        tensor = rng.choice("yyz")
        shape = model.values[number].shape
        if len(shape) != 2:
            return None
        turned = rng.random() < 0.2
        size = (shape[1], shape[0]) if turned else shape
        kind = rng.choice(("rectangle", "rectangle", "strided", "listed", "affine"))
        if max(size) > SIDE:
            return None
        key = _key(rng, size, kind)
        return name, number, tensor, key, turned, _mask(rng, size) if rng.random() < 0.25 else None
    if name == "count":
        column = rng.randrange(SIDE)
        return name, rng.choice(COUNTS), rng.choice("fn"), rng.randrange(SIDE), column, rng.randint(1, SIDE - column)
    if name == "atomic":
        return _atomic(rng, number, model.values[number])
    if name in ("stream", "gemm"):
        return _product(rng, name)
    if name == "ragged":
        height, end, width = rng.randint(1, 6), rng.randint(3, SIDE), rng.choice((3, 5, 7, 16))
        return name, rng.choice(("sum", "max", "copy")), (rng.randint(0, SIDE - height), height), end, width
    if name in ("dot", "sums", "where"):
        return _of_several(rng, name, model, (number, second, third))
    return _math(rng, name, number, second)


def _atomic(rng: random.Random, number: int, value: Value) -> Step | None:
    if len(value.shape) != 2 or max(value.shape) > SIDE:
        return None
    tensor, op = "y" if value.dtype.is_float else "z", rng.choice((*ATOMICS, "xchg"))
    key = _key(rng, value.shape, rng.choice(("rectangle", "rectangle", "strided", "listed", "affine")))
    return "atomic", op, number, tensor, key, _mask(rng, key[3]) if rng.random() < 0.4 else None, rng.random() < 0.6


def _math(rng: random.Random, name: str, number: int, second: int) -> Step:
    match name:
        case "unary":
            return name, rng.choice((*MONOTONE, *LIPSCHITZ, *STEPWISE, "isnan", "isnan")), number
        case "binary":
            return name, rng.choice((*FLOAT_BINARY, *INT_BINARY, *COMPARISONS)), number, second
        case "scalar":
            op = rng.choice(("add", "sub", "mul", "maximum", "minimum", "lt", "ge"))
            other = rng.choice((0, 1, 2, 3, 0.5, -0.25, -2, 1.5))
            return name, op, number, other, op in ("add", "sub", "mul", "maximum") and rng.random() < 0.3
        case "index":
            return name, number, rng.randint(-3, 3), rng.randint(-8, 8)
        case "reduction":
            return name, rng.choice(REDUCTIONS), number, rng.randrange(6), rng.random() < 0.6
        case "total":
            return name, rng.choice(REDUCTIONS), number
        case "scan":
            op = rng.choice(("cumsum", "cummax", "cummin"))
            return name, op, number, rng.randrange(6), rng.random() < 0.4
        case "convert":
            return name, number, rng.choice((*HALF_ULP, DType.F32, DType.I32, DType.I8, DType.U8, DType.I16))
        case "under_mask":
            return name, number, _mask(rng, (4, 8)), rng.choice((0, 1, -1, 5))
        case "view":
            return name, number, rng.choice(SHAPES)
    return _layout(rng, name, number, second)


def _layout(rng: random.Random, name: str, number: int, second: int) -> Step:
    match name:
        case "ordered":
            op, k = rng.choice(("sort", "sort", "flip", "topk")), rng.randint(1, 5)
            return name, op, number, rng.randrange(3), k, rng.random() < 0.4
        case "gathered":
            return name, number, rng.randrange(2), rng.choice((1, 3, 4, 8)), rng.choice((1, 3, 5)), rng.randrange(8)
        case "binned":
            return name, number, rng.choice((1, 3, 8, 20))
        case "paired":
            return name, rng.choice(PAIRS), number, second, rng.randrange(3)
        case "turned":
            return name, number, rng.randrange(6), rng.choice(("neg", "add", "maximum")), rng.choice((-1, 0, 2))
        case "bits":
            return name, rng.choice(BITS), number
        case "shifted":
            return name, rng.choice(("lshift", "rshift", "rshift")), number, rng.randint(0, 9)
        case "random":
            return name, rng.choice((0, 7, 2**40 + 3)), rng.choice((4, 12, 16, 64)), rng.choice((1, 3))
    return name, number


def _of_several(rng: random.Random, name: str, model: Model, numbers: tuple[int, int, int]) -> Step | None:
    number, second, third = numbers
    if name == "dot":
        return name, number, second, (rng.random() < 0.3, rng.random() < 0.3)
    if name == "sums":
        return name, number, second, third, rng.randint(1, 4), rng.random() < 0.4
    tests = [at for at, value in enumerate(model.values) if value.dtype is DType.BOOL]
    return (name, rng.choice(tests), number, second) if tests else None


def _partner(rng: random.Random, model: Model, number: int) -> int:
    """A value for a function of two; most often one of the dtype of value *number*."""
    if not model.values or rng.random() < 0.2:
        return rng.randrange(len(model.values) or 1)
    dtype = model.values[number].dtype
    return rng.choice([at for at, value in enumerate(model.values) if value.dtype is dtype])


def _product(rng: random.Random, name: str) -> Step:
    if name == "stream":
        rows, columns = ((rng.randrange(SIDE - size), size) for size in (rng.choice((4, 8)), rng.choice((4, 8, 12))))
        return name, rows, columns, rng.choice((6, 8, 12, 24)), rng.randint(1, 3)
    m, n, k = rng.choice(((4, 4, 4), (6, 5, 8), (8, 8, 12), (10, 9, 20)))
    a, b, c = ((rng.randrange(SIDE - down), rng.randrange(SIDE - along)) for down, along in ((m, k), (k, n), (m, n)))
    return name, a, b, c, (m, n, k)


def _place(rng: random.Random, value: Value) -> tuple[str, Any]:
    """A tensor and a rectangle where *value* may be stored at the end."""
    shape = value.shape if len(value.shape) == 2 and max(value.shape) <= SIDE else (1, 1)
    return "y" if value.dtype.is_float else "z", _key(rng, shape, "rectangle")


def _key(rng: random.Random, size: tuple[int, ...], kind: str) -> tuple[Any, ...]:
    """An index of *size* inside the tensors."""
    height, width = size
    down, along = (rng.randint(1, max(1, min(3, SIDE // length))) for length in size)
    row, column = rng.randint(0, SIDE - height), rng.randint(0, SIDE - width)
    extra: Any = None
    match kind:
        case "strided":
            row, column = rng.randint(0, SIDE - down * height), rng.randint(0, SIDE - along * width)
            extra = down, along
        case "affine":
            row, extra = rng.randint(0, SIDE - down * height), down
        case "listed" if rng.random() < 0.5:
            extra = tuple(rng.sample(range(SIDE), height))
        case "listed":
            extra = tuple(range(row, row + height))
    return kind, row, column, (height, width), extra


def _mask(rng: random.Random, size: tuple[int, ...]) -> tuple[Any, ...]:
    height, width = size
    match rng.choice(("box", "box", "triangle", "rows", "data")):
        case "box":
            return "box", rng.randint(1, height), rng.randint(1, width)
        case "triangle":
            return "triangle", rng.randint(0, width), 0
        case "rows":
            return "rows", rng.randint(1, 2 * height), 2
    return "data", rng.randrange(2), 0
