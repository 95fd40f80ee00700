"""Random Triton kernels with scalars: assigned, carried by loops and branches, chosen, returned, and as arguments.

`kernel(seed, number)` writes a kernel and its arguments. Each name of the kernel is stored at the end: its value, and a
number for its type.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from scalar_types import (
    BITS,
    COMPARISONS,
    FLOATS,
    INTEGERS,
    TL,
    Value,
    bounds,
    combined,
    common,
    constant,
    fits,
    is_signed,
    type_of,
)

BLOCK: Final = 8
"""The elements of a block, and of each input."""
SLOTS: Final = 1024
"""The elements of each output."""
_BITS: Final = {**BITS, "fp16": 16, "bf16": 16, "fp32": 32}
_OPS: Final = ["+", "-", "*", "+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", *COMPARISONS]
_LITERALS: Final = [
    0,
    1,
    2,
    3,
    5,
    7,
    100,
    -1,
    -3,
    -7,
    127,
    128,
    255,
    300,
    65536,
    70000,
    2**31 - 1,
    2**31,
    2**32,
    -(2**31),
]
_FLOAT_LITERALS: Final = [0.0, 0.1, 0.5, 1.0, 1.5, -2.25, 3.0, 1e-3, 1000.5, 0.044715, 16777217.0]
_ANNOTATIONS: Final = {
    **{each: [f"tl.{each}", f'"{each.replace("uint", "u").replace("int", "i")}"'] for each in INTEGERS},
    "fp16": ["tl.float16", '"fp16"'], "bf16": ["tl.bfloat16", '"bf16"'], "fp32": ["tl.float32", "float"],
    "int1": ["tl.int1", '"u1"'],
}  # fmt: skip


@dataclass
class Kernel:
    """A kernel: its *source*, with functions that it calls, its input arrays' types, and its other arguments.

    *facts* has, by the slot of the integers' output, the number that stands for the type of a name.
    """

    name: str
    source: str
    inputs: list[str]
    arguments: dict[str, Any] = field(default_factory=dict)
    facts: dict[int, int] = field(default_factory=dict)


class _Function:
    """A function that a kernel calls: its source, and what a call of it with a value gives."""

    def __init__(
        self,
        source: str,
        result: Callable[[Value], Value | None],
        is_of_blocks: bool = False,
        is_pair: bool = False,
    ) -> None:
        self.source = source
        self.result = result
        self.is_of_blocks = is_of_blocks
        self.is_pair = is_pair


def _returned(values: list[Value], call: str) -> Value | None:
    """What a function gives whose compiler sees all *values* returned, of which the first is the value of *call*."""
    if all(each.is_constant for each in values):
        numbers = {(type(each.number), each.number) for each in values}
        if len(numbers) == 1:
            return Value(call, number=values[0].number)
    kinds = {each.scalar_kind for each in values}
    return Value(call, kinds.pop()) if len(kinds) == 1 else None


def _by_condition(name: str, limit: int, first: Any, second: Any, has_else: bool) -> _Function:
    other = [f"    else:\n        return {second}\n"] if has_else else [f"    return {second}\n"]
    source = f"def {name}(a):\n    if a > {limit}:\n        return {first}\n{other[0]}"

    def result(given: Value) -> Value | None:
        call = f"{name}({given.text})"
        one, two = constant(first), constant(second)
        if given.is_constant:
            if not given.number > limit:
                return _returned([two], call)
            return _returned([one] if has_else else [one, two], call)
        return None if combined(">", given, constant(limit)) is None else _returned([one, two], call)

    return _Function(source, result)


def _of_pairs(name: str, limit: int, first: int, second: int, at: int) -> _Function:
    source = f"def {name}(a):\n    if a > {limit}:\n        return {first}, {second}\n    return {second}, {second}\n"

    def result(given: Value) -> Value | None:
        call = f"{name}({given.text})[{at}]"
        values = [constant((first, second)[at]), constant(second)]
        if given.is_constant:
            return _returned(values if given.number > limit else values[1:], call)
        return None if combined(">", given, constant(limit)) is None else _returned(values, call)

    return _Function(source, result, is_pair=True)


def _scaling(name: str, how: str, number: Any) -> _Function:
    texts = {
        "named": f"def {name}(a):\n    c = {number}\n    return a * c\n",
        "literal": f"def {name}(a):\n    return a * {number}\n",
        "default": f"def {name}(a, b={number}):\n    return a * b\n",
        "constexpr": f"def {name}(a):\n    c: tl.constexpr = {number}\n    return a * c\n",
    }

    def result(given: Value) -> Value | None:
        by = Value("c", type_of(number)) if how == "named" else constant(number)
        found = combined("*", given, by)
        return _renamed(found, f"{name}({given.text})")

    return _Function(texts[how], result, is_of_blocks=True)


def _counting(name: str, turns: int, step: Any) -> _Function:
    """A function that adds up numbers in a loop."""
    source = f"def {name}(a):\n    t = {step}\n    for i in range({turns}):\n        t += i\n    return t + a\n"

    def result(given: Value) -> Value | None:
        return _renamed(combined("+", Value("t", type_of(step)), given), f"{name}({given.text})")

    return _Function(source, result, is_of_blocks=True)


def _nested(name: str, inner: _Function, other: str) -> _Function:
    """A function that calls another one."""
    source = f"def {name}(a):\n    b = {other}(a)\n    return b + 1\n"

    def result(given: Value) -> Value | None:
        found = inner.result(given)
        return found and _renamed(combined("+", found.named("b"), constant(1)), f"{name}({given.text})")

    return _Function(source, result, inner.is_of_blocks)


def _renamed(value: Value | None, text: str) -> Value | None:
    return value and Value(text, value.kind, value.is_block, value.number)


class _Writer:
    """Writes one kernel."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.chance = chance
        self.name = name
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, Value] = {}
        self.fixed: set[str] = set()
        self.changed: set[str] = set()
        self.functions: list[_Function] = []
        self.inputs: list[str] = []
        self.arguments: dict[str, Any] = {}
        self.facts: dict[int, int] = {}
        self.parameters: list[str] = []
        self.prologue: list[str] = []
        self.not_specialized: list[str] = []
        self.n_names = 0
        self.loops = 0

    # The parts of a kernel

    def written(self) -> Kernel:
        for number in range(self.chance.randint(0, 3)):
            self._function(f"{self.name}_f{number}")
        self._arguments()
        for each in self.prologue:
            self.line(each)
        self.line(f"at = tl.arange(0, {BLOCK})")
        for number, kind in enumerate(self.inputs):
            self.names[f"x{number}"] = Value(f"x{number}", kind, True)
            self.line(f"x{number} = tl.load(p{number} + at)")
            self.names[f"y{number}"] = Value(f"y{number}", kind)
            self.line(f"y{number} = tl.load(p{number} + {self.chance.randint(0, BLOCK - 1)})")
        for _ in range(self.chance.randint(4, 9)):
            self.statement()
        self._stores()
        pointers = [f"p{number}" for number in range(len(self.inputs))]
        head = ", ".join([*pointers, "oi", "of", *self.parameters])
        option = f"(do_not_specialize={self.not_specialized})" if self.not_specialized else ""
        functions = "".join(f"@triton.jit\n{each.source}\n\n" for each in self.functions)
        source = f"{functions}@triton.jit{option}\ndef {self.name}({head}):\n" + "\n".join(self.lines) + "\n\n\n"
        return Kernel(self.name, source, self.inputs, self.arguments, self.facts)

    def _function(self, name: str) -> None:
        pick, chance = self.chance.choice, self.chance
        numbers = pick([[3, 1], [3, 3], [300, -2], [0.5, 1.5], [True, False], [0, 70000]])
        limit = pick([0, 2, 5])
        how = chance.randint(0, 5)
        if how == 4:
            found = _counting(name, chance.randint(1, 4), pick([0, 0.0, 5]))
        elif how == 5 and self.functions and not self.functions[0].is_pair:
            found = _nested(name, self.functions[0], f"{self.name}_f0")
        elif how == 0:
            found = _by_condition(name, limit, *numbers, has_else=chance.random() < 0.5)
        elif how == 1:
            found = _of_pairs(name, limit, pick([3, 4]), 4, chance.randint(0, 1))
        else:
            found = _scaling(name, pick(["named", "literal", "default", "constexpr"]), pick([3, 0.1, 100, -2]))
        self.functions.append(found)

    def _arguments(self) -> None:
        chance = self.chance
        self.inputs = [chance.choice([*INTEGERS, *FLOATS]) for _ in range(chance.randint(1, 2))]
        for number in range(chance.randint(1, 4)):
            name = f"n{number}"
            how = chance.randint(0, 5)
            if how == 0:
                self._annotated(name)
            elif how == 5:
                self._tuple(name)
            elif how == 1:
                given: Any = chance.choice([0, 2, 3, -5, 6])
                self.arguments[name] = given
                self.parameters.append(f"{name}: tl.constexpr")
                self.names[name] = Value(name, number=given)
                self.fixed.add(name)
            else:
                self._plain(name)

    def _annotated(self, name: str) -> None:
        kind = self.chance.choice([*INTEGERS, *FLOATS, "int1"])
        self.parameters.append(f"{name}: {self.chance.choice(_ANNOTATIONS[kind])}")
        if kind in FLOATS:
            given: Any = self.chance.choice([0.1, 1.0, -2.5, 1000.25])
        elif kind == "int1":
            given = self.chance.random() < 0.5
        else:
            given = self.chance.choice(
                [each for each in (0, 1, 2, 5, 100, bounds(kind)[1], -1, -6) if fits(each, kind)]
            )
        self.arguments[name] = given
        self.names[name] = Value(name, kind)

    def _tuple(self, name: str) -> None:
        """Adds a tuple of the host, whose elements are arguments of their own."""
        given = tuple(self.chance.choice([1, 2, -3, 2**31, 0.25, True]) for _ in range(2))
        self.arguments[name] = given
        self.parameters.append(name)
        for at, each in enumerate(given):
            text = f"{name}[{at}]"
            is_constant = each == 1 and not isinstance(each, bool)
            kind = "" if is_constant else "int64" if type_of(each) == "uint32" else type_of(each)
            item = self.new_name()
            self.prologue.append(f"{item}{': tl.constexpr' if is_constant else ''} = {text}")
            self.names[item] = Value(item, kind, number=1 if is_constant else None)
            self.fixed |= {item} if is_constant else set()

    def _plain(self, name: str) -> None:
        """Adds an argument whose type follows from its value. The integer 1 is a constant unless it is excepted."""
        chance = self.chance
        given = chance.choice(
            [1, 1, 0, 2, 3, 5, -7, 100, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63, 0.1, -1.5, True, False]
        )
        self.arguments[name] = given
        self.parameters.append(name)
        is_integer = isinstance(given, int) and not isinstance(given, bool)
        if is_integer and chance.random() < 0.3:
            self.not_specialized.append(name)
        if is_integer and given == 1 and name not in self.not_specialized:
            self.names[name] = Value(name, number=1)
            self.fixed.add(name)
            return
        kind = type_of(given)
        self.names[name] = Value(name, "int64" if kind == "uint32" else kind)

    def _stores(self) -> None:
        """Stores each name and, for a tensor, a number that stands for its type."""
        at = {"oi": 0, "of": 0}
        for name, value in self.names.items():
            out = "of" if value.is_float else "oi"
            self.line(f"tl.store({out} + {at[out]}{' + at' if value.is_block else ''}, {name})")
            at[out] += BLOCK if value.is_block else 1
            if not value.is_constant:
                facts = f"{name}.dtype.primitive_bitwidth * 2 + {name}.dtype.is_int_signed()"
                self.line(f"tl.store(oi + {at['oi']}, {facts})")
                self.facts[at["oi"]] = _BITS[value.kind] * 2 + is_signed(value.kind)
                at["oi"] += 1

    # Statements

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def statement(self) -> None:
        choices: list[Callable[[], None]] = [
            self.assignment, self.assignment, self.assignment, self.literal, self.literal, self.augmented, self.several,
            self.branch, self.loop, self.constexpr, self.tuples,
        ]  # fmt: skip
        if self.depth > 1:
            choices.remove(self.constexpr)  # the body of a loop must not set a constexpr again
        if self.depth > 2:
            choices = choices[:6]
        self.chance.choice(choices)()

    def new_name(self) -> str:
        self.n_names += 1
        return f"v{self.n_names}"

    def bind(self, name: str, value: Value) -> None:
        self.changed.add(name)
        self.names[name] = value.named(name)

    def assignment(self) -> None:
        name, value = self._target(), self.expression(3)
        if name in self.names:
            value = self._kept_type(name, value)
        self.line(f"{name} = {value.text}")
        self.bind(name, value)

    def _target(self) -> str:
        """A new name, or one that a loop or branch may carry."""
        old = [each for each in self.names if each not in self.fixed]
        return (
            self.chance.choice(old)
            if old and self.chance.random() < (0.7 if self.depth > 1 else 0.3)
            else self.new_name()
        )

    def _kept_type(self, name: str, value: Value) -> Value:
        """*value* in the type and shape of *name*, where control flow carries the name."""
        before = self.names[name]
        if self.depth == 1:
            return value
        if value.is_block != before.is_block:
            value = before
        return value if value.scalar_kind == before.kind else self.cast(value, before.kind)

    def literal(self) -> None:
        name = self.new_name()
        value = self._literal()
        self.line(f"{name} = {value.text}")
        self.bind(name, value)

    def augmented(self) -> None:
        old = [each for each in self.names if each not in self.fixed]
        if not old:
            return
        name = self.chance.choice(old)
        before = self.names[name]
        op = self.chance.choice(["+", "-", "*", "+", "-", "*", "|", "^"])
        value = self.expression(2, is_block=None if before.is_block else False)
        found = combined(op, before, value)
        if found is None or (self.depth > 1 and (found.kind, found.is_block) != (before.kind, before.is_block)):
            return
        self.line(f"{name} {op}= {value.text}")
        self.bind(name, found)

    def several(self) -> None:
        one, two = self.expression(2), self.expression(2)
        a, b = self.new_name(), self.new_name()
        self.line(f"{a}, {b} = {one.text}, {two.text}")
        self.bind(a, one)
        self.bind(b, two)
        if self.depth == 1 and self.chance.random() < 0.3 and not (one.is_block or two.is_block):
            found = combined("+", one.named(a), two.named(b))
            if found is not None and one.scalar_kind == two.scalar_kind == found.kind and found.kind != "int1":
                self.line(f"for _ in range({self.chance.randint(1, 5)}):")
                self.line(f"    {a}, {b} = {b}, {a} + {b}")
        elif self.chance.random() < 0.4 and self.depth == 1:
            self.line(f"{a}, {b} = {b}, {a}")
            self.bind(a, two)
            self.bind(b, one)

    def tuples(self) -> None:
        name, items = self.new_name(), [self.expression(1), self._literal()]
        self.line(f"{name} = ({items[0].text}, {items[1].text})")
        at = self.chance.randint(0, 1)
        item = Value(f"{name}[{at}]", items[at].scalar_kind, items[at].is_block)
        found = self._operation(item, self._literal()) or item
        other = self.new_name()
        self.line(f"{other} = {found.text}")
        self.bind(other, found)

    def constexpr(self) -> None:
        name, value = self.new_name(), self._constant(2)
        if self.chance.random() < 0.3:
            self.line(f"{name}: tl.constexpr")
            self.line(f"{name} = {value.text}")
        else:
            self.line(f"{name}: tl.constexpr = {value.text}")
        self.names[name] = Value(name, number=value.number)
        self.fixed.add(name)

    def branch(self) -> None:
        condition = self.condition()
        before = dict(self.names)
        if condition.is_constant:
            self.line(f"if {condition.text}:")
            taken = self.body() if condition.number else self._unseen(before)
            self.line("else:")
            other = self._unseen(before) if condition.number else self.body()
            self.names = dict(taken if condition.number else other)
            self._forget(before)
            return
        name = self.new_name()
        value = self.expression(1, is_block=False)
        self.line(f"if {condition.text}:")
        self.body(lambda: self.line(f"{name} = {value.text}"))
        self.names = dict(before)
        self.line("else:")
        other_value = self._literal()
        kind = value.scalar_kind
        if other_value.scalar_kind != kind:
            other_value = self.cast(self.expression(1, is_block=False), kind)
        self.body(lambda: self.line(f"{name} = {other_value.text}"))
        self.names = before
        self.bind(name, value)

    def _unseen(self, before: dict[str, Value]) -> dict[str, Value]:
        """Writes the branch of a constant condition that is not taken, which Triton does not look at."""
        kept, self.names = self.names, dict(before)
        self.body()
        self.names = kept
        return before

    def _forget(self, before: dict[str, Value]) -> None:
        """Keeps the names that were there before, as control flow carries them."""
        self.names = {name: self.names.get(name, value) for name, value in before.items()}

    def body(self, last: Callable[[], None] | None = None) -> dict[str, Value]:
        self.depth += 1
        for _ in range(self.chance.randint(1, 2)):
            self.statement()
        self.line("pass")
        if last is not None:
            last()
        self.depth -= 1
        return dict(self.names)

    def loop(self) -> None:
        if self.loops >= 2:
            return
        self.loops += 1
        before, fixed = dict(self.names), set(self.fixed)
        how = self.chance.randint(0, 3)
        if how == 0:
            counter = self.new_name()
            self.line(f"{counter} = {self.chance.randint(1, 4)}")
            before[counter] = self.names[counter] = Value(counter, "int32")
            self.fixed.add(counter)
            self.line(f"while {counter} > 0:")
            self.body(lambda: self.line(f"{counter} -= 1"))
        else:
            index = self.new_name()
            if how == 1:
                self.line(f"for {index} in tl.static_range({self.chance.randint(1, 3)}):")
            else:
                bounds_text, kind = self._range()
                self.line(f"for {index} in {bounds_text}:")
                self.names[index] = Value(index, kind)
            self.fixed.add(index)
            self.body()
        self.names, self.fixed = before, fixed

    def _range(self) -> tuple[str, str]:
        """The iterable of a loop, and the type of its index."""
        name = self.chance.choice(["range", "tl.range"])
        few = [
            each
            for name_of, each in self.names.items()
            if name_of in self.arguments and each.kind in ("", "int32", "int64") and name_of not in self.changed
            and isinstance(self.arguments[name_of], int) and 0 <= self.arguments[name_of] <= 6
        ]  # fmt: skip
        if few and self.chance.random() < 0.5:
            stop = self.chance.choice(few)
            return f"{name}({stop.text})", stop.kind or "int32"
        of_constants = ["3", "1, 4", "0, 6, 2"] + (["5, 0, -2"] if name == "range" else [])
        return f"{name}({self.chance.choice(of_constants)})", "int32"

    # Expressions

    def condition(self) -> Value:
        for _ in range(20):
            op = self.chance.choice(list(COMPARISONS))
            found = combined(op, self.expression(1, is_block=False), self._literal())
            if found is not None and not found.is_block:
                return found
        return Value("True", number=True)

    def _literal(self) -> Value:
        how = self.chance.random()
        if how < 0.6:
            return constant(self.chance.choice(_LITERALS))
        return constant(self.chance.choice(_FLOAT_LITERALS) if how < 0.92 else self.chance.random() < 0.5)

    def _constant(self, depth: int) -> Value:
        """A constant expression."""
        known = [each for each in self.names.values() if each.is_constant]
        if depth == 0 or self.chance.random() < 0.3:
            return self.chance.choice(known) if known and self.chance.random() < 0.5 else self._literal()
        op = self.chance.choice(["+", "-", "*", "//", "%", ">>", "&", "/", "<", "=="])
        return combined(op, self._constant(depth - 1), self._constant(depth - 1)) or self._literal()

    def leaf(self, is_block: bool | None) -> Value:
        known = [each for each in self.names.values() if is_block is None or each.is_block == is_block]
        if known and self.chance.random() < 0.75:
            return self.chance.choice(known)
        return self._literal()

    def expression(self, depth: int, is_block: bool | None = None) -> Value:
        """An expression of some operators; with *is_block* False, a scalar or a constant."""
        if depth == 0 or self.chance.random() < 0.15:
            return self.leaf(is_block)
        makers: list[Callable[[int, bool | None], Value | None]] = [
            self._binary, self._binary, self._binary, self._binary, self._unary, self._of_function, self._chosen,
            self._conversion, self._called, self._joined, self._chain, self._walrus,
        ]  # fmt: skip
        for _ in range(6):
            found = self.chance.choice(makers)(depth - 1, is_block)
            if found is not None and not (is_block is False and found.is_block):
                return found
        return self.leaf(is_block)

    def _binary(self, depth: int, is_block: bool | None) -> Value | None:
        one = self.expression(depth, is_block)
        return self._operation(one, self.expression(depth, is_block))

    def _operation(self, one: Value, two: Value) -> Value | None:
        """An operator of two values, whose divisor or number of bits is one that Triton does not leave open."""
        op = self.chance.choice(_OPS)
        if op in ("//", "%") and not two.is_constant:
            if two.is_float or two.kind == "int1":
                return None
            two = Value(f"(({two.text} & 7) + 1)", two.kind, two.is_block)
        elif op in ("//", "%"):
            two = constant(self.chance.choice([2, 3, 4, 7, 100, -2, -3]))
        elif op in ("<<", ">>"):
            if two.is_constant or two.is_float or two.kind == "int1":
                two = constant(self.chance.randint(0, 7))
            else:
                two = Value(f"({two.text} & 7)", two.kind, two.is_block)
        return combined(op, one, two)

    def _unary(self, depth: int, is_block: bool | None) -> Value | None:
        value = self.expression(depth, is_block)
        op = self.chance.choice(["-", "~", "not "])
        text = f"({op}{value.text})"
        if value.is_constant:
            if op == "~" and not (isinstance(value.number, int) and not isinstance(value.number, bool)):
                return None
            return Value(text, number=-value.number if op == "-" else ~value.number if op == "~" else not value.number)
        if (op == "~" and value.is_float) or (op == "not " and value.kind != "int1"):
            return None
        return Value(text, value.kind, value.is_block)

    def _of_function(self, depth: int, is_block: bool | None) -> Value | None:
        one, two = self.expression(depth, is_block), self.expression(depth, is_block)
        name = self.chance.choice(["tl.where", "tl.minimum", "tl.maximum", "min", "tl.abs"])
        if name == "tl.abs":
            return (
                None if one.is_constant or one.kind == "int1" else Value(f"tl.abs({one.text})", one.kind, one.is_block)
            )
        if one.is_constant and two.is_constant:
            return self._of_two_literals(name)
        found = combined("+", one, two)
        if found is None or found.kind == "int1":
            return None
        if name != "tl.where":
            return None if found.is_float else Value(f"{name}({one.text}, {two.text})", found.kind, found.is_block)
        test = self.expression(0, is_block)
        test = combined(">", test, self._literal()) or Value("True", number=True)
        if test.is_constant:
            return None
        return Value(f"tl.where({test.text}, {one.text}, {two.text})", found.kind, found.is_block or test.is_block)

    def _of_two_literals(self, name: str) -> Value | None:
        """A scalar that a function makes of two numbers."""
        one, two, test = self._literal(), self._literal(), self.condition()
        kind = common(type_of(one.number), type_of(two.number), False)
        if name == "min" or kind is None or kind == "int1" or not _is_held(one.number, kind, two.number):
            return None
        if name == "tl.where":
            return None if test.is_constant else Value(f"tl.where({test.text}, {one.text}, {two.text})", kind)
        return None if kind == "fp32" else Value(f"{name}({one.text}, {two.text})", kind)

    def _chosen(self, depth: int, is_block: bool | None) -> Value | None:
        test, one = self.condition(), self.expression(depth, is_block)
        if test.is_constant:
            two = self.expression(depth, is_block)
            chosen = one if test.number else two
            text = f"({one.text} if {test.text} else {two.text})"
            return Value(text, chosen.kind, chosen.is_block, chosen.number)
        if one.is_constant:
            two = self._literal()
            if two.scalar_kind != one.scalar_kind:
                two = constant(type(one.number)(3))
            if two.scalar_kind != one.scalar_kind:
                return None
        else:
            two = self.expression(depth, one.is_block or False)
            if two.is_block != one.is_block:
                return None
            two = two if two.scalar_kind == one.kind else self.cast(two, one.kind)
        return Value(f"({one.text} if {test.text} else {two.text})", one.scalar_kind, one.is_block)

    def _conversion(self, depth: int, is_block: bool | None) -> Value | None:
        value = self.expression(depth, is_block)
        return None if value.is_constant else self.cast(value, self.chance.choice([*INTEGERS, *FLOATS]))

    def cast(self, value: Value, kind: str) -> Value:
        """*value* as *kind*. A float is limited to numbers that each integer type has."""
        text = value.text
        if value.is_constant:
            text = f"tl.full((), {text}, {TL[value.scalar_kind]})"
        if value.is_float and kind in BITS and kind != "int1":
            text = f"tl.minimum(tl.maximum({text}, {'-99.0' if kind.startswith('i') else '1.0'}), 99.0)"
        return Value(f"{text}.to({TL[kind]})", kind, value.is_block)

    def _called(self, depth: int, is_block: bool | None) -> Value | None:
        if not self.functions:
            return None
        function = self.chance.choice(self.functions)
        value = self.expression(depth, is_block if function.is_of_blocks else False)
        return function.result(value)

    def _chain(self, depth: int, is_block: bool | None) -> Value | None:
        """A chain of two comparisons of scalars."""
        first, middle, last = self._literal(), self.expression(depth, False), self._literal()
        ops = self.chance.choice(["<", "<="]), self.chance.choice(["<", ">=", "!="])
        parts = combined(ops[0], first, middle), combined(ops[1], middle, last)
        if middle.is_constant or None in parts:
            return None
        return Value(f"({first.text} {ops[0]} {middle.text} {ops[1]} {last.text})", "int1")

    def _joined(self, depth: int, is_block: bool | None) -> Value | None:
        one, two = self.condition(), self.condition()
        if one.is_constant or two.is_constant:
            return None
        return Value(f"({one.text} {self.chance.choice(['and', 'or'])} {two.text})", "int1")

    def _walrus(self, depth: int, is_block: bool | None) -> Value | None:
        """Names a literal within an expression. The name is used nowhere else, so it does not matter when it is set."""
        value = self._literal()
        return Value(f"({self.new_name()} := {value.text})", value.scalar_kind)


def _is_held(one: Any, kind: str, two: Any) -> bool:
    return kind == "fp32" or (fits(int(one), kind) and fits(int(two), kind))


def kernel(seed: int, number: int) -> Kernel:
    """The random kernel *number* of *seed*."""
    return _Writer(f"kernel_{number}", random.Random(f"{seed}/{number}")).written()


if __name__ == "__main__":
    import sys

    print(kernel(int(sys.argv[1]), int(sys.argv[2])).source)
