"""Runnable copies of a kernel's function, in which Triton's meaning of operators and of builtins holds.

Triton takes `and`, `or`, `not`, `assert` and chains of comparisons elementwise where an operand is a block. Python asks
a block for its truth there, and a block has many. So a function with such operators gets another code object, in which
they are calls. Its file, its lines and all else stay. The same holds for `.to` and `.dtype`, which the numbers of a
kernel have in Triton, and Python's numbers do not have, and for `.shape`, which equals a list in Triton.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
from collections.abc import Callable
from functools import lru_cache
from itertools import repeat
from operator import is_
from types import CodeType, FunctionType
from typing import Any, Final
from weakref import WeakKeyDictionary

from kb_triton.language import device_assert, device_print, maximum, minimum, tensor, to_tensor
from kb_triton.language.control import runtime_range
from kb_triton.language.tensors.constexprs import Shape

_AND, _OR, _NOT, _ASSERT = "__kb_and", "__kb_or", "__kb_not", "__kb_assert"
_TYPED, _SHAPE = "__kb_typed", "__kb_shape"
_OF_NUMBERS: Final = frozenset(("to", "dtype"))


def both(first: Any, second: Callable[[], Any]) -> Any:
    """Returns `first and second()`, elementwise for blocks. *second* is not called if *first*, no block, is false."""
    if not _is_block(first) and not first:
        return first
    other = second()
    return _as_bool(first) & _as_bool(other) if _is_block(first) else other


def either(first: Any, second: Callable[[], Any]) -> Any:
    """Returns `first or second()`, elementwise for blocks. *second* is not called if *first*, no block, is true."""
    if not _is_block(first) and first:
        return first
    other = second()
    return _as_bool(first) | _as_bool(other) if _is_block(first) else other


def inverse(value: Any) -> Any:
    """Returns `not value`, elementwise for a tensor."""
    return value == 0 if type(value) is tensor and value.dtype.kind != "void" else not value


def typed(value: Any) -> Any:
    """Returns *value*, with a number of Python as the scalar that Triton makes of it."""
    return to_tensor(value) if isinstance(value, (int, float)) else value


def shape_of(value: Any) -> Any:
    """Returns `value.shape`, and for a tensor a shape that equals a list of the same sizes."""
    return Shape(value.shape) if type(value) is tensor else value.shape


OPERATORS: Final = {
    _AND: both, _OR: either, _NOT: inverse, _ASSERT: device_assert, _TYPED: typed, _SHAPE: shape_of,
}  # fmt: skip
"""The functions that code of `elementwise_code` calls, by their names there."""
_CODES: Final = WeakKeyDictionary[FunctionType, tuple[CodeType, CodeType]]()
"""The code that each function had, and the code that was made of it."""


def elementwise_code(fn: FunctionType) -> CodeType:
    """Returns the code of *fn* with calls of OPERATORS in place of its operators; unchanged where there are none."""
    code, found = _CODES.get(fn, (None, None))
    if found is None or code is not fn.__code__:
        found = _with_calls(fn)
        _CODES[fn] = fn.__code__, found
    return found


def _with_calls(fn: FunctionType) -> CodeType:
    """Compiles the code that `elementwise_code` returns."""
    body, shift = _definition(fn)
    if body is None:
        return fn.__code__
    calls = _Calls()
    calls.visit(body)
    if not calls.has_changed:
        return fn.__code__
    body.decorator_list.clear()
    code = fn.__code__
    module = ast.parse(f"def outer({', '.join(code.co_freevars)}): pass")
    outer = module.body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body[:] = [body]
    ast.increment_lineno(module, shift)
    compiled = compile(ast.fix_missing_locations(module), code.co_filename, "exec", _future(code), dont_inherit=True)
    return _inner(_inner(compiled, "outer"), body.name).replace(co_qualname=code.co_qualname)


def _definition(fn: FunctionType) -> tuple[ast.FunctionDef | None, int]:
    """Returns the definition of *fn* and the number of lines before it in its file; None for one without source."""
    try:
        lines, first = inspect.getsourcelines(fn)
        indented = lines[0][:1].isspace()
        tree = ast.parse("".join(["if True:\n", *lines] if indented else lines))
    except (OSError, TypeError, SyntaxError):
        # The function was made by `exec`, or is a lambda within a line.
        return None, 0
    first_statement = tree.body[0]
    found = first_statement.body[0] if isinstance(first_statement, ast.If) else first_statement
    return (found if isinstance(found, ast.FunctionDef) else None), first - 1 - indented


def _future(code: CodeType) -> int:
    """Returns the flags of the `from __future__` imports that *code* was compiled with."""
    known: int = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
    return code.co_flags & known


def _inner(code: CodeType, name: str) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)


def _is_block(value: Any) -> bool:
    return type(value) is tensor and value.numel != 1


def _as_bool(value: Any) -> Any:
    """Returns *value* as booleans: every element that is not 0 is true."""
    return value != 0 if isinstance(value, tensor) else bool(value)


class _Calls(ast.NodeTransformer):
    """Puts calls in place of operators. A nested function gets its calls when it is called."""

    def __init__(self) -> None:
        self.has_changed = False
        self._names = 0

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return self._joined(node, _AND if isinstance(node.op, ast.And) else _OR, node.values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self._call(node, _NOT, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Makes `assert` a `tl.device_assert`, which does not wait for a pending block."""
        self.generic_visit(node)
        arguments = [node.test] if node.msg is None else [node.test, node.msg]
        return ast.copy_location(ast.Expr(self._call(node, _ASSERT, *arguments)), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Gives numbers `.to` and `.dtype`, and shapes a comparison with lists.

        A loop variable is such a number before its first change.
        """
        self.generic_visit(node)
        if node.attr == "shape" and isinstance(node.ctx, ast.Load):
            return self._call(node, _SHAPE, node.value)
        if node.attr not in _OF_NUMBERS or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(ast.Attribute(self._call(node.value, _TYPED, node.value), node.attr, node.ctx), node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        left, parts = node.left, list[ast.expr]()
        for number, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            again: ast.expr = right
            if number + 1 < len(node.ops) and not isinstance(right, ast.Name | ast.Constant):
                # Two comparisons use this operand, and it has to be evaluated once.
                self._names += 1
                kept = f"__kb_{self._names}"
                right, again = ast.NamedExpr(ast.Name(kept, ast.Store()), right), ast.Name(kept, ast.Load())
            parts.append(ast.Compare(left, [op], [right]))
            left = again
        return self._joined(node, _AND, parts)

    def _joined(self, node: ast.expr, name: str, values: list[ast.expr]) -> ast.expr:
        *before, found = values
        for each in reversed(before):
            found = self._call(node, name, each, _later(found))
        return found

    def _call(self, node: ast.expr | ast.stmt, name: str, *arguments: ast.expr) -> ast.expr:
        self.has_changed = True
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), list(arguments), []), node)


def _later(value: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, value)


def _smallest(*values: Any, **named: Any) -> Any:
    """Python's `min`, which takes scalars of the kernel too."""
    if len(values) == 2 and any(isinstance(each, tensor) for each in values):
        return minimum(*values)
    return builtins.min(*values, **named)


def _largest(*values: Any, **named: Any) -> Any:
    """Python's `max`, which takes scalars of the kernel too."""
    if len(values) == 2 and any(isinstance(each, tensor) for each in values):
        return maximum(*values)
    return builtins.max(*values, **named)


_REPLACED: Final = {"range": runtime_range, "min": _smallest, "max": _largest, "print": device_print}
_NOTHING: Final = object()
_MOST_CODES: Final = 1 << 10
"""Of which the names are kept. Source: assumed; most have less than 1 kB of names."""
_BUILTINS: Final = {**vars(builtins), **_REPLACED, **OPERATORS}


class Runnable:
    """Makes runnable copies of *fn*, which see Triton's builtins and whose `and`, `or` and `not` take blocks.

    A copy has the lines of *fn*. The same copy is used until a name that its code uses gets another value.
    """

    def __init__(self, fn: FunctionType) -> None:
        self.fn = fn
        self._copy: FunctionType | None = None
        self._values: list[Any] = []

    def function(self) -> FunctionType:
        """Returns the copy for the present values of the names that *fn* uses."""
        fn = self.fn
        names = _names_in(fn.__code__)
        values = [fn.__code__, *map(fn.__globals__.get, names, repeat(_NOTHING)), fn.__defaults__, fn.__kwdefaults__]
        if self._copy is None or not all(map(is_, self._values, values)):
            self._copy, self._values = _copied(fn), values
        return self._copy


@lru_cache(maxsize=_MOST_CODES)
def _names_in(code: CodeType) -> frozenset[str]:
    """Returns the names that *code*, and code nested in it, may look up."""
    return frozenset(code.co_names).union(*[_names_in(each) for each in code.co_consts if isinstance(each, CodeType)])


def _copied(fn: FunctionType) -> FunctionType:
    names = dict(fn.__globals__)
    names["__builtins__"] = _BUILTINS
    code, cells = elementwise_code(fn), dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    copy = FunctionType(code, names, fn.__name__, fn.__defaults__, tuple(cells[name] for name in code.co_freevars))
    copy.__kwdefaults__ = fn.__kwdefaults__
    return copy
