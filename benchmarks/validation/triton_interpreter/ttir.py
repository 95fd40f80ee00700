"""Computes with numpy what a kernel in TTIR does, the intermediate language that Triton's compiler makes of a kernel.

Knows the operations that kernels of `scalar_kernels` are made of, as MLIR's dialects arith, scf and cf define them.
`Open` is raised for a result that MLIR leaves open, such as a division by zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import ml_dtypes
import numpy as np

_TYPES: Final = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
_DIGITS: Final = {"f16": (11, -14), "bf16": (8, -126), "f32": (24, -126), "f64": (53, -1022)}
"""Bits of a number of each type, and the exponent of the smallest normal number."""


class Open(Exception):
    """The result is one that MLIR leaves open."""


@dataclass
class _Op:
    results: list[str]
    name: str
    rest: str
    regions: list[_Region] = field(default_factory=list)


@dataclass
class _Block:
    arguments: list[str]
    ops: list[_Op]


@dataclass
class _Region:
    blocks: dict[str, _Block]

    @property
    def entry(self) -> _Block:
        return next(iter(self.blocks.values()))


@dataclass
class _Function:
    parameters: list[str]
    body: _Region


@dataclass
class Pointer:
    """A pointer to the element *at* of *data*."""

    data: Any
    at: Any = 0


_LOCATION: Final = re.compile(r' ?loc\((?:#\w+|"(?:[^"\\]|\\.)*"(?:\(#\w+\))?|unknown)\)')
_OP: Final = re.compile(r"(?:(%[\w.#:, %-]+?) = )?\"?([a-z_]+\.[\w.]+)\"?(.*)")


class Program:
    """The functions of *text*, a module of TTIR. The first public function is the kernel."""

    def __init__(self, text: str) -> None:
        lines = [_LOCATION.sub("", each).rstrip() for each in text.splitlines()]
        self._lines = iter([each.strip() for each in lines if each.strip() and not each.startswith("#loc")])
        self.functions: dict[str, _Function] = {}
        for line in self._lines:
            if line.startswith("tt.func"):
                found = re.match(r"tt\.func (?:\w+ )?@([^(]+)\(", line)
                assert found is not None, line
                parameters = re.findall(r"%[\w.-]+(?=: )", line.partition("attributes")[0])
                self.functions[found[1].strip('"')] = _Function(parameters, self._region([])[0])

    def _region(self, arguments: list[str]) -> tuple[_Region, str]:
        """Reads up to the brace that closes a region, and returns the region and the line of the brace."""
        blocks = {"": _Block(arguments, [])}
        block = blocks[""]
        for line in self._lines:
            if line.startswith("}"):
                return _Region(blocks), line
            if line.startswith("^"):
                label, _, rest = line[1:].partition("(" if "(" in line.split(":")[0] else ":")
                block = _Block(re.findall(r"(%[\w.#-]+):", rest.partition("//")[0]), [])
                if not blocks[""].ops and len(blocks) == 1:
                    blocks.clear()
                blocks[label] = block
                continue
            block.ops.append(self._op(line))
        raise ValueError("a region without an end")

    def _op(self, line: str) -> _Op:
        found = _OP.match(line)
        assert found is not None, line
        results = [each.strip() for each in (found[1] or "").split(",") if each.strip()]
        op = _Op(results, found[2], found[3].strip())
        if op.rest.endswith("{"):
            while True:
                region, closing = self._region(re.findall(r"(%[\w.-]+) =", op.rest) if not op.regions else [])
                op.regions.append(region)
                if not closing.endswith("{"):
                    break
        return op

    def run(self, arguments: list[Any]) -> None:
        """Calls the kernel. *arguments* are numpy scalars of MLIR's types, and pointers."""
        with np.errstate(all="ignore"):
            _Frame(self).call(next(iter(self.functions.values())), arguments)


class _Frame:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: dict[str, Any] = {}

    def call(self, function: _Function, arguments: list[Any]) -> list[Any]:
        self.values = dict(zip(function.parameters, arguments, strict=True))
        blocks = function.body.blocks
        labels = list(blocks)
        label = labels[0]
        while True:
            ending = self.block(blocks[label])
            assert ending is not None
            op, operands = ending
            if op.name == "tt.return":
                return operands
            label, operands = self._branch(op)
            self.values.update(zip(blocks[label].arguments, operands, strict=True))

    def _branch(self, op: _Op) -> tuple[str, list[Any]]:
        targets = re.findall(r"\^(\w+)(?:\(([^:)]*)[^)]*\))?", op.rest)
        at = 0 if op.name == "cf.br" or bool(self[op.rest.partition(",")[0]]) else 1
        return targets[at][0], [self[each.strip()] for each in targets[at][1].split(",") if each.strip()]

    def block(self, block: _Block) -> tuple[_Op, list[Any]] | None:
        """Runs *block*, and returns the op that ends it with its operands; None for a block without one."""
        for op in block.ops:
            if op.name in ("tt.return", "scf.yield"):
                return op, [self[each] for each in re.findall(r"%[\w.#-]+", op.rest.partition(":")[0])]
            if op.name in ("cf.br", "cf.cond_br", "scf.condition"):
                return op, []
            self._bind(op.results, self._result(op))
        return None

    def _bind(self, names: list[str], results: Any) -> None:
        if len(names) == 1 and ":" in names[0]:
            name = names[0].partition(":")[0]
            self.values.update({f"{name}#{at}": each for at, each in enumerate(results)})
        elif names:
            self.values[names[0]] = results[0] if isinstance(results, list) else results

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def _result(self, op: _Op) -> Any:
        if op.name.startswith("scf."):
            return {"scf.if": self._if, "scf.for": self._for, "scf.while": self._while}[op.name](op)
        if op.name == "tt.call":
            name, operands = re.match(r"@([^(]+)\((.*?)\) :", op.rest).groups()  # type: ignore[union-attr]
            return _Frame(self.program).call(self.program.functions[name.strip('"')], self._named(operands))
        head, _, types = op.rest.rpartition(" : ")
        return _operation(op.name, head, types, self._named(head.partition("{")[0]))

    def _named(self, text: str) -> list[Any]:
        return [self.values[each] for each in re.findall(r"%[\w.#-]+", text)]

    def _if(self, op: _Op) -> Any:
        chosen = 0 if bool(self[re.match(r"%[\w.#-]+", op.rest)[0]]) else 1  # type: ignore[index]
        if chosen >= len(op.regions):
            return []
        ending = self.block(op.regions[chosen].entry)
        return ending[1] if ending else []

    def _for(self, op: _Op) -> Any:
        first = re.match(r"(?:unsigned )?(%\S+) = (%\S+) to (%\S+) step (%\S+)", op.rest)
        assert first is not None, op.rest
        carried = re.search(r"iter_args\((.*?)\) ->", op.rest)
        pairs = re.findall(r"(%[\w.#-]+) = (%[\w.#-]+)", carried[1]) if carried else []
        state = [self[each] for _, each in pairs]
        start, stop, step = (self[each] for each in first.groups()[1:])
        for number in range(int(start), int(stop), int(step)):
            self.values[first[1]] = np.asarray(number).astype(np.asarray(start).dtype)
            self.values.update(zip((name for name, _ in pairs), state, strict=True))
            ending = self.block(op.regions[0].entry)
            state = ending[1] if ending else []
        return state

    def _while(self, op: _Op) -> Any:
        pairs = re.findall(r"(%[\w.#-]+) = (%[\w.#-]+)", op.rest)
        names, state = [name for name, _ in pairs], [self[each] for _, each in pairs]
        while True:
            self.values.update(zip(names, state, strict=True))
            ending = self.block(op.regions[0].entry)
            assert ending is not None
            test, *kept = re.findall(r"%[\w.#-]+", ending[0].rest.partition(":")[0])
            state = [self[each] for each in kept]
            if not bool(self[test]):
                return state
            body = op.regions[1].entry
            self.values.update(zip(body.arguments, state, strict=True))
            ending = self.block(body)
            state = ending[1] if ending else []


def _element(type_text: str) -> str:
    found = re.search(r"x?(bf16|f16|f32|f64|i1|i8|i16|i32|i64)>?$", type_text.strip())
    assert found is not None, type_text
    return found[1]


def _length(type_text: str) -> tuple[int, ...]:
    found = re.match(r"tensor<((?:\d+x)+)", type_text.strip())
    return tuple(int(each) for each in found[1].split("x")[:-1]) if found else ()


def _unsigned(x: Any) -> Any:
    x = np.asarray(x)
    return x.astype(np.uint8) if x.dtype == np.bool_ else x.view(f"u{x.dtype.itemsize}")


def _signed(x: Any, like: Any) -> Any:
    return np.asarray(x).astype(np.asarray(x).dtype).view(np.asarray(like).dtype)


def _operation(name: str, head: str, types: str, operands: list[Any]) -> Any:
    """The result of an operation without regions. *types* is the text behind the last colon."""
    if any(each is None for each in operands):
        raise Open("poison")
    if name in _SPECIAL:
        return _SPECIAL[name](head, types, operands)
    if name in _CASTS:
        source, _, target = types.partition(" -> " if " -> " in types else " to ")
        return _CASTS[name](np.asarray(operands[0]), _element(source), _element(target))
    return _ARITHMETIC[name](*map(np.asarray, operands))


def _constant(head: str, types: str, operands: list[Any]) -> Any:
    if not head:  # `true` and `false` stand without a type
        head, types = types, "i1"
    text = head.removeprefix("dense<").removesuffix(">") if head.startswith("dense<") else head
    kind = _element(types)
    if text in ("true", "false"):
        number: Any = np.bool_(text == "true")
    elif kind.startswith("i"):
        number = np.array(int(text) & ((1 << int(kind[1:])) - 1), np.uint64).astype(_TYPES[kind])
    elif text.startswith("0x"):
        width = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f64": np.uint64}[kind]
        number = np.array(int(text, 16), width).view(_TYPES[kind])
    else:
        number = np.array(float(text), np.float64).astype(_TYPES[kind])
    return np.broadcast_to(number, _length(types))


def _compare_integers(head: str, types: str, operands: list[Any]) -> Any:
    how = head.split(",")[0].strip()
    one, two = operands
    if how[0] == "u":
        one, two = _unsigned(one), _unsigned(two)
    return _COMPARISONS[how.removeprefix("s").removeprefix("u")](np.asarray(one), np.asarray(two))


def _compare_floats(head: str, types: str, operands: list[Any]) -> Any:
    return _COMPARISONS[head.split(",")[0].strip()[1:]](*map(np.asarray, operands))


_COMPARISONS: Final = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


def _range(head: str, types: str, operands: list[Any]) -> Any:
    start, end = (int(re.search(rf"{each} = (-?\d+)", head)[1]) for each in ("start", "end"))  # type: ignore[index]
    return np.arange(start, end, dtype=np.int32)


def _splat(head: str, types: str, operands: list[Any]) -> Any:
    shape = _length(types.partition("->")[2])
    value = operands[0]
    if isinstance(value, Pointer):
        return Pointer(value.data, np.broadcast_to(value.at, shape))
    return np.broadcast_to(value, shape)


def _load(head: str, types: str, operands: list[Any]) -> Any:
    return operands[0].data[operands[0].at]


def _store(head: str, types: str, operands: list[Any]) -> Any:
    operands[0].data[operands[0].at] = operands[1]
    return []


def _bitcast(head: str, types: str, operands: list[Any]) -> Any:
    target = _TYPES[_element(types.partition(" to ")[2])]
    found = np.asarray(operands[0])
    return found if found.dtype == target else found.view(target)


_SPECIAL: Final[dict[str, Callable[[str, str, list[Any]], Any]]] = {
    "arith.constant": _constant, "arith.cmpi": _compare_integers, "arith.cmpf": _compare_floats,
    "tt.make_range": _range, "tt.splat": _splat, "tt.load": _load, "tt.store": _store, "arith.bitcast": _bitcast,
    "tt.addptr": lambda head, types, given: Pointer(given[0].data, given[0].at + np.asarray(given[1]).astype(np.int64)),
    "arith.select": lambda head, types, given: np.where(*given).astype(np.asarray(given[1]).dtype),
    "ub.poison": lambda head, types, given: None,
}  # fmt: skip


def _round(number: Fraction, kind: str) -> float:
    """The number of type *kind* nearest to *number*, of equally near ones the even one."""
    digits, least = _DIGITS[kind]
    if number == 0:
        return 0.0
    exponent = max(_log2(abs(number)), least) - (digits - 1)
    unit = Fraction(2) ** exponent
    found = round(number / unit) * unit
    limit = (2 - Fraction(2) ** (1 - digits)) * Fraction(2) ** (1 - least)
    return float(found) if abs(found) <= limit else float("inf") if number > 0 else float("-inf")


def _log2(number: Fraction) -> int:
    found = number.numerator.bit_length() - number.denominator.bit_length()
    return found if Fraction(2) ** found <= number else found - 1


def _to_float(x: Any, kind: str) -> Any:
    found = [_round(Fraction(int(each)), kind) for each in np.ravel(x)]
    return np.array(found, np.float64).astype(_TYPES[kind]).reshape(np.shape(x))


def _truncated(x: Any, source: str, target: str) -> Any:
    """*x* in a narrower type of float."""
    wide = np.asarray(x).astype(np.float64)
    found = [_round(Fraction(float(each)), target) if np.isfinite(each) else each for each in wide.ravel()]
    rounded = np.array(found, np.float64).reshape(wide.shape)
    return np.where(rounded == 0, np.copysign(0.0, wide), rounded).astype(_TYPES[target])


def _to_integer(x: Any, source: str, target: str, is_signed: bool) -> Any:
    wide = np.asarray(x).astype(np.float64)
    bits = int(target[1:])
    low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if is_signed else (0.0, 2.0**bits)
    whole = np.trunc(wide)
    if not (np.isfinite(wide) & (whole >= low) & (whole < high)).all():
        raise Open("a float beyond the range of an integer")
    found = np.array([int(each) & ((1 << bits) - 1) for each in whole.ravel()], np.uint64)
    return found.astype(_TYPES[target]).reshape(wide.shape)


_CASTS: Final[dict[str, Callable[[Any, str, str], Any]]] = {
    "arith.extsi": lambda x, source, target: (-x.astype(np.int8) if source == "i1" else x).astype(_TYPES[target]),
    "arith.extui": lambda x, source, target: _unsigned(x).astype(np.uint64).astype(_TYPES[target]),
    "arith.trunci": lambda x, source, target: (x & 1 != 0) if target == "i1" else x.astype(_TYPES[target]),
    "arith.sitofp": lambda x, source, target: _to_float(x, target),
    "arith.uitofp": lambda x, source, target: _to_float(_unsigned(x), target),
    "arith.fptosi": lambda x, source, target: _to_integer(x, source, target, True),
    "arith.fptoui": lambda x, source, target: _to_integer(x, source, target, False),
    "arith.extf": lambda x, source, target: x.astype(_TYPES[target]),
    "arith.truncf": _truncated, "tt.fp_to_fp": _truncated,
}  # fmt: skip


def _divided(x: Any, y: Any) -> Any:
    if (y == 0).any() or ((x == np.iinfo(x.dtype).min) & (y == -1)).any():
        raise Open("a division by zero")
    found = np.abs(x.astype(object)) // np.abs(y.astype(object))
    return np.where((x < 0) != (y < 0), -found, found).astype(x.dtype)


def _unsigned_divided(x: Any, y: Any) -> Any:
    if (y == 0).any():
        raise Open("a division by zero")
    return _signed(_unsigned(x) // _unsigned(y), x)


def _shifted(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def shifted(x: Any, y: Any) -> Any:
        if (_unsigned(y).astype(np.uint64) >= 8 * x.dtype.itemsize).any():
            raise Open("a shift by more bits than there are")
        return function(x, y)

    return shifted


def _bits(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """*function* of integers, in which integers of one bit wrap."""
    ints = {np.add: np.logical_xor, np.subtract: np.logical_xor, np.multiply: np.logical_and}

    def computed(x: Any, y: Any) -> Any:
        return ints[function](x, y) if x.dtype == np.bool_ else function(x, y)  # type: ignore[index]

    return computed


def _of_unsigned(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: _signed(function(_unsigned(x), _unsigned(y)), x)


_ARITHMETIC: Final[dict[str, Callable[..., Any]]] = {
    "arith.addi": _bits(np.add), "arith.subi": _bits(np.subtract), "arith.muli": _bits(np.multiply),
    "arith.divsi": _divided, "arith.divui": _unsigned_divided,
    "arith.remsi": lambda x, y: (x - _divided(x, y) * y).astype(x.dtype),
    "arith.remui": lambda x, y: x - _unsigned_divided(x, y) * y,
    "arith.shli": _shifted(np.left_shift), "arith.shrsi": _shifted(np.right_shift),
    "arith.shrui": _shifted(lambda x, y: _signed(_unsigned(x) >> _unsigned(y), x)),
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.maxsi": np.maximum, "arith.minsi": np.minimum, "arith.maxui": _of_unsigned(np.maximum),
    "arith.minui": _of_unsigned(np.minimum), "math.absi": np.abs, "math.absf": np.abs, "arith.negf": np.negative,
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.maxnumf": np.fmax, "arith.minnumf": np.fmin,
}  # fmt: skip
