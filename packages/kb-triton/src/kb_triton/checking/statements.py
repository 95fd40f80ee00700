"""The statements of a kernel: control flow, whose branches and loops have to leave each name with one type."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kb_triton.checking import arithmetic
from kb_triton.checking.expressions import ExpressionCheck, truth
from kb_triton.checking.refusals import Refusal, unsupported, unverified
from kb_triton.checking.values import (
    CLASSES,
    SOME_TENSOR,
    UNKNOWN,
    Constant,
    Group,
    Plain,
    Typed,
    Unknown,
    Value,
    as_tensor,
    handles,
    is_unknown,
    name_of_type,
    normalized,
    python_of,
    renewed,
    repr_of_type,
    same_type,
    type_of_constant,
)
from kb_triton.language import constexpr, static_range
from kb_triton.language import range as tl_range
from kb_triton.language.tensors.dtypes import int1

_TYPES_OF_VALUES = tuple(CLASSES)


class FunctionCheck(ExpressionCheck):
    """Checks the statements of a function. `result` is the value that it returns, once `run` has ended."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._loops = 0
        self._returns_in_loops = 0
        self._returned: list[Value] = []
        self.result: Value = Constant(None)

    def run(self, arguments: Sequence[Value]) -> None:
        """Checks the function for *arguments*, one for each parameter."""
        tree = self.source.tree
        names = tree.args
        for each in (*names.args, *names.kwonlyargs):
            self._check_parameter(each)
        for each, default in zip(reversed(names.args), reversed(names.defaults), strict=False):
            self._check_default(each, default)
        everything = [*names.posonlyargs, *names.args, *([names.vararg] if names.vararg else []), *names.kwonlyargs]
        for parameter, value in zip(everything, arguments, strict=False):
            self.assign(parameter.arg, value)
        self.visit_all(tree.body)
        try:
            self.result = self._return_value()
        except Refusal as refusal:
            refusal.at(self.source, tree)
            raise

    def _check_parameter(self, parameter: ast.arg) -> None:
        if parameter.annotation is not None:
            self.visit(parameter.annotation)

    def _check_default(self, parameter: ast.arg, default: ast.expr) -> None:
        """Looks at a default as Triton does, which assigns the default before the argument."""
        self.is_default = True
        try:
            value = self.visit(default)
            if not self._is_constant(parameter.annotation):
                self.sanitized(ast.Name(parameter.arg, ast.Store()), value)
        except Refusal as refusal:
            refusal.at(self.source, default)
            raise
        finally:
            self.is_default = False

    def _is_constant(self, annotation: ast.expr | None) -> bool:
        return annotation is not None and python_of(self.visit(annotation)) is constexpr

    def visit_all(self, statements: Iterable[ast.stmt]) -> None:
        """Checks *statements* up to the first `return`; Triton does not look at statements after it."""
        for each in statements:
            self.visit(each)
            if isinstance(each, ast.Return):
                return

    def _visit_Expr(self, node: ast.Expr) -> None:
        self.visit(node.value)

    def _visit_Pass(self, node: ast.Pass) -> None: ...

    def _visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        raise unsupported(
            "nested function definitions are not allowed inside a @triton.jit kernel. "
            "Move the helper function to module level and decorate it with @triton.jit."
        )

    def _visit_Return(self, node: ast.Return) -> None:
        self._returns_in_loops += self._loops > 0
        value = Constant(None) if node.value is None else self.visit(node.value)
        self._returned.append(Constant(None) if isinstance(value, Plain) and value.value is None else value)

    def _return_value(self) -> Value:
        """Returns the value of a call, whose type is that of all returned values."""
        if not self._returned:
            return Constant(None)
        if any(map(is_unknown, self._returned)) or self.lost:
            return UNKNOWN if any(map(is_unknown, self._returned)) else self._returned[0]
        found = self._returned[0]
        for each in self._returned[1:]:
            found = self._common(found, each)
        return renewed(found)

    def _common(self, one: Value, two: Value) -> Value:
        if isinstance(one, Group) and isinstance(two, Group) and one.fields == two.fields:
            return Group(tuple(map(self._common, one.values, two.values)), one.fields)
        if same_type(one, two):
            return one
        found = [_as_result(each) for each in (one, two)] if Constant in (type(one), type(two)) else [one, two]
        if same_type(*found):
            return found[0]
        kinds = ", ".join(_repr_of_result(each) for each in self._returned)
        raise Refusal(
            f"Return type mismatch: {name_of_type(found[0])} and {name_of_type(found[1])}. "
            f"Note all return types were: [{kinds}]",
            TypeError,
        )

    def _visit_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise Refusal("", _BareAssertionError)
        target = node.targets[0]
        value = self.sanitized(target, self.visit(node.value))
        self.set_target(target, value)

    def _visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        annotation = python_of(self.visit(node.annotation))
        if node.value is None:
            if annotation is constexpr and isinstance(node.target, ast.Name):
                self.pending_constants.add(node.target.id)
            return
        value = self.visit(node.value)
        if annotation is constexpr and isinstance(node.target, ast.Name):
            if node.target.id in self.names:
                raise Refusal(f"{node.target.id} is already defined. constexpr cannot be reassigned.", ValueError)
            self.names[node.target.id] = normalized(value)
            return
        self.set_target(node.target, self.sanitized(node.target, value))

    def _visit_AugAssign(self, node: ast.AugAssign) -> None:
        place = _loaded(node.target)
        value = self.visit(ast.copy_location(ast.BinOp(place, node.op, node.value), node))
        self.set_target(node.target, self.sanitized(node.target, value))

    def _visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        if node.msg is not None:
            self.visit(node.msg)

    def _visit_With(self, node: ast.With) -> None:
        for each in node.items:
            context = each.context_expr
            if not isinstance(context, ast.Call):
                raise Refusal(f"'{type(context).__name__}' object has no attribute 'func'", AttributeError)
            if isinstance(self.visit(context), Typed):
                raise Refusal("'tensor' object has no attribute '__enter__'", AttributeError)
            if isinstance(each.optional_vars, ast.Name):
                self.assign(each.optional_vars.id, UNKNOWN)
        self.visit_all(node.body)

    def _visit_If(self, node: ast.If) -> None:
        condition = self.visit(node.test)
        if isinstance(condition, (Constant, Plain)):
            self.visit_all(node.body if truth(condition) else node.orelse)
            return
        if not isinstance(condition, Typed) and condition is not SOME_TENSOR:
            self._skip(node)
            return
        if isinstance(condition, Typed):
            if condition.numel != 1:
                raise unsupported("Boolean value of Tensor with more than one value is ambiguous")
            arithmetic.converted(condition, int1)
        if self._loops and _has_return(node):
            raise unsupported("Cannot have `return` statements inside `while` or `for` statements in triton.")
        self._branch(node)

    def _branch(self, node: ast.If) -> None:
        """Checks both branches of *node*, and leaves the names that both agree on."""
        before = dict(self.names)
        with self._region():
            self.visit_all(node.body)
            then = dict(self.names), dict(self.assigned)
            self.names, self.assigned = dict(before), {}
            self.visit_all(node.orelse)
            other = dict(self.names), dict(self.assigned)
        for name, value in _merged(before, then, other).items():
            self.assign(name, value)

    @contextmanager
    def _region(self) -> Iterator[None]:
        """Keeps the names from before the block for after it."""
        names, assigned, pending = dict(self.names), self.assigned, set(self.pending_constants)
        self.assigned = {}
        yield
        self.names, self.assigned, self.pending_constants = names, assigned, pending

    def _skip(self, *nodes: ast.AST) -> None:
        """Forgets the names that statements bind which Triton may look at or not."""
        for node in nodes:
            for each in ast.walk(node):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                    self.lost.add(each.id)
                    self.assign(each.id, UNKNOWN)
                elif isinstance(each, ast.Return):
                    self._returned.append(UNKNOWN)

    def _visit_For(self, node: ast.For) -> None:
        call = node.iter
        if not isinstance(call, ast.Call):
            raise Refusal(f"'{type(call).__name__}' object has no attribute 'func'", AttributeError)
        iterator = python_of(self.visit(call.func))
        arguments = [self.visit(each) for each in call.args]
        named = {str(each.arg): self.visit(each.value) for each in call.keywords}
        if iterator is static_range:
            self._unroll(node, arguments, named)
        elif iterator in (builtins.range, tl_range):
            _check_range(iterator, arguments, named)
            self._loop(node, arguments if iterator is builtins.range else _bounds_of(arguments, named))
        elif isinstance(iterator, Unknown):
            self._skip(node)
        else:
            raise Refusal("Only `range` and `static_range` iterators are currently supported", RuntimeError)

    def _unroll(self, node: ast.For, arguments: Sequence[Value], named: dict[str, Value]) -> None:
        bounds = _bounds_of(arguments, named)
        names = ("start", "end", "step") if len(arguments) > 1 else ("end", "start", "step")
        for name, each in zip(names, bounds, strict=True):
            if isinstance(each, (Typed, Group)) or each is SOME_TENSOR:
                shown = "a tensor" if isinstance(each, Unknown) else str(each)
                raise Refusal(f"{shown} used as tl.static_range {name} value is not a constexpr", AssertionError)
        numbers = [python_of(each) for each in bounds]
        if not all(isinstance(each, int) for each in numbers) or not isinstance(node.target, ast.Name):
            self._skip(node)
            return
        for number in builtins.range(*numbers):
            self.names[node.target.id] = Constant(number)
            self.visit_all(node.body)

    def _loop(self, node: ast.For, bounds: Sequence[Value]) -> None:
        if not isinstance(node.target, ast.Name):
            raise Refusal(f"'{type(node.target).__name__}' object has no attribute 'id'", AttributeError)
        self.assign(node.target.id, _counter(bounds))
        self._body(node, {node.target.id})
        if node.orelse:
            raise Refusal("Don't know what to do with else after for", AssertionError)

    def _visit_While(self, node: ast.While) -> None:
        self._body(node, set(), node.test)
        if node.orelse:
            raise Refusal("Not implemented", AssertionError)

    def _body(self, node: ast.For | ast.While, ignored: set[str], test: ast.expr | None = None) -> None:
        """Checks the body of a loop, which has to leave each name with the type that it had before."""
        before = dict(self.names)
        self._loops += 1
        with self._region():
            self.visit_all(node.body)
            if self._returns_in_loops:
                words = "We use SCF, so the loop body should only have one block"
                raise Refusal(words, AssertionError) if isinstance(node, ast.For) else Refusal("", _BareAssertionError)
            carried = self._carried(before, ignored)
            self.names = {**before, **carried}
            if test is not None:
                _check_test(self.visit(test))
        self._loops -= 1
        for name, value in carried.items():
            self.assign(name, renewed(value))

    def _carried(self, before: dict[str, Value], ignored: set[str]) -> dict[str, Value]:
        """Returns the names that the body of a loop changed, with the values from before the loop."""
        found: dict[str, Value] = {}
        for name, live in before.items():
            after = self.names.get(name, UNKNOWN)
            if name in ignored or after is live:
                continue
            if isinstance(live, Plain):
                if name in self.assigned and not is_unknown(after):
                    raise Refusal(f"Loop carried variable {name} is not a triton value", AssertionError)
            elif is_unknown(live) or is_unknown(after):
                found[name] = UNKNOWN
            else:
                _check_carried(name, live, after)
                found[name] = live
        return found


class _BareAssertionError(AssertionError):
    """An assertion of Triton without words."""

    def __repr__(self) -> str:
        return "AssertionError()"


def _loaded(target: ast.expr) -> ast.expr:
    """Returns *target* as an expression that is read."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    if isinstance(target, ast.Subscript):
        return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
    assert isinstance(target, ast.Attribute)
    return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)


def _has_return(node: ast.AST) -> bool:
    """Whether *node* has a `return` outside of nested functions."""
    return any(isinstance(each, ast.Return) for each in ast.walk(node))


def _as_result(value: Value) -> Value:
    """Returns a returned constant as the tensor that it becomes beside other returned values."""
    if not isinstance(value, Constant):
        return value
    held = value.value
    if not isinstance(held, (int, float)):
        raise Refusal(f"cannot convert {held} of type {type(held)} to tensor", TypeError)
    return Typed(type_of_constant(held), ())


def _repr_of_result(value: Value) -> str:
    return repr_of_type(value) if isinstance(value, Typed) else name_of_type(value)


def _class_text(value: Value) -> str:
    return f"<class '{CLASSES[type(value)]}'>"


def _check_carried(name: str, live: Value, after: Value) -> None:
    """Refuses a name whose value in a loop, *after*, differs in type from the value before, *live*."""
    if not isinstance(after, _TYPES_OF_VALUES):
        raise Refusal(f"cannot reassign constexpr {name} in the loop", AssertionError)
    if type(after) is not type(live):
        raise Refusal(
            f"Loop carried variable {name} changed type, was {_class_text(after)} but is now {_class_text(live)}",
            AssertionError,
        )
    if isinstance(live, Typed) and not same_type(live, after):
        raise Refusal(
            f"Loop-carried variable {name} has initial type {name_of_type(live)} but is re-assigned to "
            f"{name_of_type(after)} in loop! Please make sure that the type stays consistent.",
            AssertionError,
        )


def _check_test(test: Value) -> None:
    if isinstance(test, Typed):
        arithmetic.converted(test, int1)
        if test.is_block:
            raise unverified("a `while` takes a scalar as its condition")
    elif isinstance(test, Constant):
        raise Refusal("'constexpr' object has no attribute 'handle'", AttributeError)


def _merged(
    before: dict[str, Value],
    then: tuple[dict[str, Value], dict[str, Value]],
    other: tuple[dict[str, Value], dict[str, Value]],
) -> dict[str, Value]:
    """Returns the names that a branch changed. *then* and *other* have all names, and the assigned ones."""
    found: dict[str, Value] = {}
    for name, live in before.items():
        one, two = then[0].get(name, UNKNOWN), other[0].get(name, UNKNOWN)
        if isinstance(live, Plain) or (one is live and two is live):
            continue
        if any(map(is_unknown, (live, one, two))):
            found[name] = UNKNOWN
        elif handles(one) != handles(two):
            for value, block in ((one, "then"), (two, "else")):
                if not same_type(value, live):
                    raise Refusal(
                        f"initial value for `{name}` is of type {live}, but the {block} block redefines it as {value}",
                        AssertionError,
                    )
            found[name] = renewed(one)
    for name in sorted(then[1].keys() & other[1].keys()):
        if name not in found:
            found[name] = _merged_new(name, then[1][name], other[1][name])
    return found


def _merged_new(name: str, one: Value, two: Value) -> Value:
    """Returns the value of a *name* that both branches assign."""
    if is_unknown(one) or is_unknown(two):
        return UNKNOWN
    for each in (one, two):
        if isinstance(each, Plain):
            raise Refusal(f"'{type(each.value).__name__}' object has no attribute 'type'", AttributeError)
    if not same_type(one, two):
        raise Refusal(
            f"Mismatched type for {name} between then block ({name_of_type(one)}) and else block ({name_of_type(two)})",
            AssertionError,
        )
    return renewed(one)


def _check_range(iterator: Any, arguments: Sequence[Value], named: dict[str, Value]) -> None:
    """Refuses arguments that a range does not take."""
    if iterator is builtins.range:
        if not arguments:
            raise Refusal("list index out of range", IndexError)
        return
    try:
        tl_range(*arguments, **named)
    except TypeError as error:
        raise Refusal(str(error), TypeError) from None


def _bounds_of(arguments: Sequence[Value], named: dict[str, Value]) -> list[Value]:
    """Returns start, stop and step of a range, where they are given."""
    known = dict(zip(("arg1", "arg2", "step"), arguments, strict=False)) | named
    first, second, step = (known.get(each, Constant(None)) for each in ("arg1", "arg2", "step"))
    if python_of(second) is None:
        first, second = Constant(0), first
    return [first, second, Constant(1) if python_of(step) is None else step]


def _counter(bounds: Sequence[Value]) -> Value:
    """Returns the loop variable of a range. Refuses bounds that are no integer scalars."""
    if any(map(is_unknown, bounds)):
        return SOME_TENSOR
    first, stop = bounds[:2] if len(bounds) > 1 else (Constant(0), bounds[0])
    step = bounds[2] if len(bounds) > 2 else Constant(1)
    found = [as_tensor(each) for each in (first, stop, step)]
    if not all(isinstance(each, Typed) for each in found):
        return SOME_TENSOR
    tensors = [each for each in found if isinstance(each, Typed)]
    if not all(not each.is_pointer and each.dtype.is_int() for each in tensors):
        kinds = ", ".join(str(each.dtype) for each in tensors)
        raise Refusal(f"For loop bounds and step must all be ints, are ({kinds})", TypeError)
    for each, name in zip(tensors, ("lower bound", "upper bound", "step"), strict=True):
        if each.numel != 1:
            raise Refusal(f"For {name} must be a scalar, got {name_of_type(each)}", TypeError)
    kind = arithmetic.promoted_integer(tensors[0].dtype, tensors[1].dtype)
    return Typed(arithmetic.promoted_integer(kind, tensors[2].dtype), ())
