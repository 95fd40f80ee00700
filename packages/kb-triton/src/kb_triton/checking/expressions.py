"""The values of a kernel's expressions, as Triton's compiler finds them, and expressions that the compiler refuses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from kb_messages import KernelError
from kb_triton.checking import arithmetic
from kb_triton.checking.functions_of_tl import call_of_object, call_of_tl, is_method
from kb_triton.checking.functions_of_tl.shapes import permuted
from kb_triton.checking.global_names import global_value
from kb_triton.checking.refusals import Refusal, unsupported, unverified
from kb_triton.checking.subscripts import element_of
from kb_triton.checking.values import (
    SOME_TENSOR,
    UNKNOWN,
    Constant,
    Descriptor,
    Group,
    Method,
    Plain,
    Typed,
    Unknown,
    Value,
    as_tensor,
    class_name,
    is_unknown,
    name_of_type,
    normalized,
    python_of,
    renewed,
    same_type,
    type_object,
    wrapped,
)
from kb_triton.checking.whole_check import WholeCheck
from kb_triton.language import static_assert, static_print
from kb_triton.language.compile_errors import CompileTimeAssertionFailure
from kb_triton.language.tensors.dtypes import dtype, int1

if TYPE_CHECKING:
    from kb_triton.checking.source import KernelSource

_CONDITIONS: Final = (bool, int, type(None))
"""The types of Python that Triton takes for a condition."""


class ExpressionCheck:
    """Finds the values of expressions of the function *fn*, whose source is *source*.

    `names` has the values of local names, `assigned` those of names that the current branch or loop assigns, and
    `lost` the names that a skipped statement may bind. *check* is the check of the whole kernel.
    """

    def __init__(self, check: WholeCheck, fn: FunctionType, source: KernelSource) -> None:
        self.check = check
        self.fn = fn
        self.source = source
        self.names: dict[str, Value] = {}
        self.assigned: dict[str, Value] = {}
        self.pending_constants: set[str] = set()
        self.lost: set[str] = set()
        self.is_default = False

    def visit(self, node: ast.AST) -> Any:
        """Returns the value of *node*. Raises Refusal, with the place in the source, for what Triton refuses."""
        self.check.step()
        found: Callable[[Any], Any] | None = getattr(self, f"_visit_{type(node).__name__}", None)
        try:
            if found is None:
                raise unsupported(f"unsupported AST node type: {type(node).__name__}")
            return found(node)
        except Refusal as refusal:
            refusal.at(self.source, node)
            raise

    def assign(self, name: str, value: Value) -> None:
        """Makes *value* the value of the local *name*."""
        self.names[name] = value
        self.assigned[name] = value

    def _visit_Name(self, node: ast.Name) -> Value:
        if node.id in self.names:
            return self.names[node.id]
        found = global_value(self.fn, node.id, self.check.allows_globals or self.is_default)
        if found is None:
            if node.id in self.lost:
                return UNKNOWN
            raise Refusal(f"{node.id} is not defined", NameError)
        return found

    def _visit_Constant(self, node: ast.Constant) -> Value:
        return Constant(node.value)

    def _visit_Tuple(self, node: ast.Tuple | ast.List) -> Value:
        return Group(tuple(self.visit(each) for each in node.elts))

    def _visit_List(self, node: ast.List) -> Value:
        return self._visit_Tuple(node)

    def _visit_ListComp(self, node: ast.ListComp) -> Value:
        if len(node.generators) != 1:
            raise Refusal("nested comprehensions are not supported", ValueError)
        part = node.generators[0]
        items = self.visit(part.iter)
        if isinstance(items, (Typed, Constant, Plain, Descriptor)):
            raise Refusal("only tuple comprehensions are supported", NotImplementedError)
        if not isinstance(items, Group):
            return UNKNOWN
        found = []
        for each in items.values:
            self.bind(part.target, each)
            conditions = [self.visit(test) for test in part.ifs]
            if any(not isinstance(test, (Constant, Plain)) for test in conditions):
                return UNKNOWN
            if all(python_of(test) for test in conditions):
                found.append(self.visit(node.elt))
        return Group(tuple(found))

    def bind(self, target: ast.expr, value: Value) -> None:
        """Makes *value*, or its elements, the values of the names in *target*."""
        if isinstance(target, ast.Name):
            self.assign(target.id, value)
        elif isinstance(target, ast.Tuple):
            parts = value.values if isinstance(value, Group) else (UNKNOWN,) * len(target.elts)
            for each, part in zip(target.elts, parts, strict=False):
                self.bind(each, part)

    def _visit_BinOp(self, node: ast.BinOp) -> Value:
        one, two = self.visit(node.left), self.visit(node.right)
        name = type(node.op).__name__
        if name not in arithmetic.SYMBOLS:
            raise unsupported(f"AST binary operator '{name}' is not (currently) implemented.")
        return arithmetic.binary(arithmetic.SYMBOLS[name], one, two)

    def _visit_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.visit(node.operand)
        if isinstance(value, Unknown):
            return value
        if isinstance(value, (Constant, Plain)):
            return _unary_constant(node.op, value)
        if not isinstance(value, Typed):
            return UNKNOWN
        if isinstance(node.op, ast.USub):
            return arithmetic.negative(value)
        if isinstance(node.op, ast.Invert):
            return arithmetic.inverted(value)
        if isinstance(node.op, ast.Not):
            return arithmetic.logical_not(value)
        raise unsupported("AST unary operator '__pos__' is not (currently) implemented on type tensor")

    def _visit_Compare(self, node: ast.Compare) -> Value:
        values = self._comparisons(node)
        return next(values) if len(node.ops) == 1 else self._joined(True, values)

    def _comparisons(self, node: ast.Compare) -> Iterator[Value]:
        one = self.visit(node.left)
        for op, other in zip(node.ops, node.comparators, strict=True):
            two = self.visit(other)
            yield self._compared(op, one, two)
            one = two

    def _compared(self, op: ast.cmpop, one: Value, two: Value) -> Value:
        if isinstance(op, (ast.Is, ast.IsNot)):
            return _identity(one, two, isinstance(op, ast.Is))
        name = type(op).__name__
        if name not in arithmetic.SYMBOLS:
            raise unsupported(f"AST comparison operator '{name}' is not (currently) implemented.")
        return arithmetic.binary(arithmetic.SYMBOLS[name], one, two)

    def _visit_BoolOp(self, node: ast.BoolOp) -> Value:
        return self._joined(isinstance(node.op, ast.And), (self.visit(each) for each in node.values))

    def _joined(self, is_and: bool, values: Iterable[Value]) -> Value:
        """Returns the values joined by `and` or `or`. A constant decides without the values after it."""
        found: list[Value] = []
        last: Value = UNKNOWN
        for last in values:
            if isinstance(last, (Constant, Plain)):
                if bool(last.value) is not is_and:
                    return last
            elif isinstance(last, Typed) or last is SOME_TENSOR:
                found.append(last)
            else:
                return UNKNOWN
        if not found:
            return last
        while len(found) > 1:
            two, one = found.pop(), found.pop()
            found.append(arithmetic.logical(one, two))
        return found[0]

    def _visit_NamedExpr(self, node: ast.NamedExpr) -> Value:
        self.set_target(node.target, self.sanitized(node.target, self.visit(node.value)))
        return self.names[node.target.id]

    def sanitized(self, target: ast.expr, value: Value) -> Value:
        """Returns *value* as *target* keeps it: a number becomes a scalar tensor."""
        if isinstance(target, (ast.Tuple, ast.List)):
            return self._sanitized_elements(target, value)
        if isinstance(target, ast.Name) and target.id in self.pending_constants:
            self.pending_constants.discard(target.id)
            return normalized(value)
        return _as_assigned(value)

    def _sanitized_elements(self, target: ast.Tuple | ast.List, value: Value) -> Value:
        if isinstance(value, (Unknown, Method)):
            return value
        if not isinstance(value, Group):
            raise Refusal("cannot unpack non-iterable value", TypeError)
        if any(isinstance(each, ast.Starred) for each in target.elts):
            raise Refusal("starred assignment targets are not supported", NotImplementedError)
        wanted, given = len(target.elts), len(value.values)
        if given > wanted:
            raise Refusal(f"too many values to unpack (expected {wanted})", ValueError)
        if given < wanted:
            raise Refusal(f"not enough values to unpack (expected {wanted}, got {given})", ValueError)
        found = (self.sanitized(one, each) for one, each in zip(target.elts, value.values, strict=True))
        return Group(tuple(_none_as_constant(each) for each in found), value.fields)

    def set_target(self, target: ast.expr, value: Value) -> None:
        """Makes *value* the value of *target*, a name or a tuple of names."""
        if isinstance(target, ast.Subscript):
            raise Refusal("__setitem__ is not supported in triton", NotImplementedError)
        if isinstance(target, ast.Attribute):
            raise Refusal("Attribute assignment is not supported in triton", NotImplementedError)
        if isinstance(target, (ast.Tuple, ast.List)):
            self.bind_elements(target, value)
        elif isinstance(target, ast.Name):
            self.assign(target.id, value)

    def bind_elements(self, target: ast.Tuple | ast.List, value: Value) -> None:
        """Makes the elements of *value* the values of the names in *target*."""
        values = value.values if isinstance(value, Group) else (UNKNOWN,) * len(target.elts)
        for each, part in zip(target.elts, values, strict=False):
            self.set_target(each, part)

    def _visit_IfExp(self, node: ast.IfExp) -> Value:
        condition = self.visit(node.test)
        if isinstance(condition, Typed) or condition is SOME_TENSOR:
            found = self._either(node)
            if isinstance(condition, Typed):
                arithmetic.converted(condition, int1)
                if condition.is_block:
                    raise unverified("a conditional expression takes a scalar as its condition")
            return found
        if isinstance(condition, (Constant, Plain)):
            return self.visit(node.body if truth(condition) else node.orelse) or UNKNOWN
        return UNKNOWN

    def _either(self, node: ast.IfExp) -> Value:
        before, assigned = dict(self.names), dict(self.assigned)
        one, two = (as_tensor(self.visit(each)) for each in (node.body, node.orelse))
        self.names, self.assigned = before, assigned
        if isinstance(one, Unknown) or isinstance(two, Unknown):
            return SOME_TENSOR
        if not same_type(one, two):
            raise Refusal(
                "Ternary expression with dynamic condition has inconsistent types "
                f"{name_of_type(one)} and {name_of_type(two)}",
                AssertionError,
            )
        return renewed(one)

    def _visit_Attribute(self, node: ast.Attribute) -> Value:
        owner = self.visit(node.value)
        name = node.attr
        if isinstance(owner, Typed):
            return _attribute_of_tensor(owner, name)
        if isinstance(owner, Group):
            return owner.values[owner.fields.index(name)] if owner.fields and name in owner.fields else UNKNOWN
        if isinstance(owner, Descriptor):
            return _attribute_of_descriptor(owner, name)
        if isinstance(owner, Constant) and name == "value":
            return owner
        if not isinstance(owner, (Constant, Plain)):
            return UNKNOWN
        return _attribute_of_object(owner.value, name)

    def _visit_Subscript(self, node: ast.Subscript) -> Value:
        owner = self.visit(node.value)
        return element_of(owner, self.visit(node.slice))

    def _visit_Slice(self, node: ast.Slice) -> Value:
        parts = [Constant(None) if each is None else self.visit(each) for each in (node.lower, node.upper, node.step)]
        if all(isinstance(each, (Constant, Plain)) for each in parts):
            return Plain(slice(*(python_of(each) for each in parts)))
        return Plain(slice(*parts))

    def _visit_JoinedStr(self, node: ast.JoinedStr) -> Value:
        found = [str(each.value) if isinstance(each, ast.Constant) else self._formatted(each) for each in node.values]
        return UNKNOWN if None in found else Constant("".join(map(str, found)))

    def _formatted(self, node: ast.expr) -> str | None:
        assert isinstance(node, ast.FormattedValue)
        value = self.visit(node.value)
        if isinstance(value, (Typed, Group, Descriptor)):
            kind = f"<class 'triton.language.core.{class_name(value)}'>"
            raise unsupported(
                "Cannot evaluate f-string containing non-constexpr conversion values, found conversion of type " + kind
            )
        return str(value.value) if isinstance(value, Constant) else None

    def _visit_Call(self, node: ast.Call) -> Value:
        function = self.visit(node.func)
        target = python_of(function)
        if target is static_assert:
            return self._static_assert(node)
        named = {each.arg: self.visit(each.value) for each in node.keywords}
        arguments = list(self._arguments(node))
        if None in named or any(each is None for each in arguments):
            return UNKNOWN
        if target is static_print:
            return Constant(None)
        keywords = {str(name): value for name, value in named.items()}
        return self._called(function, arguments, keywords)

    def _arguments(self, node: ast.Call) -> Iterator[Any]:
        for each in node.args:
            if not isinstance(each, ast.Starred):
                yield self.visit(each)
                continue
            value = self.visit(each.value)
            if isinstance(value, Group):
                yield from value.values
            elif isinstance(value, (Typed, Constant, Plain)):
                raise Refusal("", AssertionError)
            else:
                yield None

    def _called(self, function: Value, arguments: list[Value], named: dict[str, Value]) -> Value:
        if isinstance(function, Typed):
            raise Refusal("unhashable type: 'tensor'", TypeError)
        if isinstance(function, Constant) and isinstance(function.value, (int, float, str)):
            raise Refusal(f"'{type(function.value).__name__}' object is not callable", TypeError)
        if isinstance(function, Method):
            return call_of_tl(function.name, [function.owner, *arguments], named, self.check)
        target = python_of(function)
        inner = getattr(target, "fn", None)
        if isinstance(inner, FunctionType) and hasattr(target, "arg_names") and hasattr(target, "signature"):
            return self.check.call(target, arguments, named)
        return call_of_object(target, arguments, named, self.check)

    def _static_assert(self, node: ast.Call) -> Value:
        if not 0 < len(node.args) <= 2 or node.keywords:
            raise Refusal("`static_assert` requires one or two positional arguments only", TypeError)
        condition = self.visit(node.args[0])
        if is_unknown(condition):
            return Constant(None)
        value = python_of(condition)
        if not isinstance(value, bool):
            raise Refusal(
                "Assertion condition could not be determined at compile-time. "
                "Make sure that it depends only on `constexpr` values",
                NotImplementedError,
            )
        if not value:
            said = self.visit(node.args[1]) if len(node.args) > 1 else Constant("")
            raise Refusal(str(python_of(said)) if not is_unknown(said) else "", error=CompileTimeAssertionFailure)
        return Constant(None)


def truth(condition: Constant | Plain) -> bool:
    """Returns whether a constant *condition* holds. Refuses objects that Triton takes for no condition."""
    if type(condition.value) in _CONDITIONS:
        return bool(condition.value)
    if isinstance(condition.value, (int, float, str)) and type(condition.value) not in (float, str):
        return bool(condition.value)  # a constant of kb_triton, which is a kind of int
    names = ", ".join(each.__name__ for each in _CONDITIONS)
    raise unsupported(
        f"`if` conditionals can only accept values of type {{{names}}}, "
        f"not objects of type {type(condition.value).__name__}"
    )


def _as_assigned(value: Value) -> Value:
    """Returns *value* as a name keeps it."""
    if isinstance(value, Group):
        return Group(tuple(_none_as_constant(_as_assigned(each)) for each in value.values), value.fields)
    if isinstance(value, (Typed, Unknown, Descriptor, Method)):
        return value
    held = value.value
    if held is None or is_type(held):
        return Plain(held)
    if getattr(held, "__aggregate_fields__", None) is not None:
        return UNKNOWN
    return as_tensor(value)


def is_type(value: Any) -> bool:
    """Whether *value* is an element type of Triton."""
    return isinstance(value, dtype)


def _none_as_constant(value: Value) -> Value:
    return Constant(None) if isinstance(value, Plain) and value.value is None else value


def _unary_constant(op: ast.unaryop, value: Constant | Plain) -> Value:
    held = value.value
    if isinstance(op, ast.Not):
        return Constant(not held)
    try:
        return Constant(-held if isinstance(op, ast.USub) else +held if isinstance(op, ast.UAdd) else ~held)
    except TypeError:
        return UNKNOWN


def _identity(one: Value, two: Value, is_same: bool) -> Value:
    if isinstance(one, (Typed, Group, Descriptor)) or isinstance(two, (Typed, Group, Descriptor)):
        if isinstance(one, Unknown) or isinstance(two, Unknown):
            return UNKNOWN
        return Constant((one is two) is is_same)
    if isinstance(one, (Constant, Plain)) and isinstance(two, (Constant, Plain)):
        first, second = one.value, two.value
        if None in (type(first), type(second)) or first is None or second is None:
            return Constant((first is second) is is_same)
        if isinstance(first, (int, float, str)) and isinstance(second, (int, float, str)):
            return Constant((first == second) is is_same)
        return Constant((first is second) is is_same)
    if one is SOME_TENSOR and isinstance(two, (Constant, Plain)):
        return Constant(not is_same)
    return UNKNOWN


def _attribute_of_tensor(owner: Typed, name: str) -> Value:
    if name == "shape":
        return Group(tuple(Constant(size) for size in owner.shape))
    if name == "dtype":
        return Plain(owner.dtype)
    if name == "type":
        return Plain(type_object(owner))
    if name == "numel":
        return Constant(owner.numel)
    if name == "T":
        return _transposed(owner)
    return Method(owner, name) if is_method(name) else UNKNOWN


def _transposed(owner: Typed) -> Typed:
    try:
        return permuted(owner, [1, 0])
    except Refusal as refusal:
        raise Refusal(refusal.words, ValueError) from None


def _attribute_of_descriptor(owner: Descriptor, name: str) -> Value:
    if name == "block_shape":
        return Group(tuple(Constant(size) for size in owner.block_shape))
    if name == "dtype":
        return Plain(owner.dtype)
    return Method(owner, f"{name}_tensor_descriptor") if name in ("load", "store") else UNKNOWN


def _attribute_of_object(owner: Any, name: str) -> Value:
    """Returns the attribute *name* of a module, a type or another object of Python."""
    try:
        found = getattr(owner, name)
    except (AttributeError, KernelError):
        return UNKNOWN
    if isinstance(owner, ModuleType) or callable(found) or is_type(found):
        return Plain(found) if not isinstance(found, (tuple, list)) else wrapped(found)
    return wrapped(found)
