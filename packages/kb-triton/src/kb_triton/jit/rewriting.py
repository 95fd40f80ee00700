"""The code of a kernel with Triton's meaning of operators, assignments and returned numbers.

Triton takes `and`, `or`, `not`, `assert` and chains of comparisons elementwise where an operand is a block. Python asks
a block for its truth there, and a block has many. A number that a name gets, that a condition of the run chooses, or
that one of several `return` statements gives is a scalar of fixed type in Triton. So a kernel gets another code object,
in which these are calls of functions of `scalars`. Its file, its lines and all else stay. The same holds for `.to` and
`.dtype`, which the numbers of a kernel have in Triton, and Python's numbers do not have, and for `.shape`, which equals
a list in Triton.
"""

from __future__ import annotations
import __future__

import ast
import inspect
from collections.abc import Iterable, Iterator
from copy import deepcopy
from types import CodeType, FunctionType
from typing import Any, Final
from weakref import WeakKeyDictionary

from kb_messages import KernelError
from kb_triton.checking.source import source_of
from kb_triton.jit.scalars import AND, ASSERT, ASSIGNED, MERGED, NOT, OR, RETURNED, RUNS, SHAPE, TYPED

_OF_NUMBERS: Final = frozenset(("to", "dtype"))
_MANY: Final = "__kb_many"
"""The name, in a function with several returned values, of whether a condition of the run stood before a `return`."""
_WITHOUT_SOURCE: Final = "@jit functions should be defined in a Python file"
_CODES: Final = WeakKeyDictionary[FunctionType, tuple[CodeType, CodeType]]()
"""The code that each function had, and the code that was made of it."""


def check_source(fn: FunctionType) -> None:
    """Raises ValueError, with Triton's sentence, if Python does not find the source of *fn*, say of text for `exec`."""
    try:
        inspect.findsource(fn)
    except OSError as error:
        raise ValueError(_WITHOUT_SOURCE) from error


def tritons_code(fn: FunctionType) -> CodeType:
    """Returns the code of *fn* with calls of `scalars` in place of what Triton takes otherwise than Python.

    The code is unchanged where there is no such place. Raises KernelError for a function whose source is no `def` that
    Python finds.
    """
    code, found = _CODES.get(fn, (None, None))
    if found is None or code is not fn.__code__:
        found = _with_calls(fn)
        _CODES[fn] = fn.__code__, found
    return found


def _with_calls(fn: FunctionType) -> CodeType:
    """Compiles the code that `tritons_code` returns."""
    source = source_of(fn)
    if source is None:
        raise KernelError(
            f"the @jit function {fn.__qualname__}", "no source that Python finds", "a def in a Python file",
            _WITHOUT_SOURCE,
        )  # fmt: skip
    body = deepcopy(source.tree)
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
    _move(ast.fix_missing_locations(module), source.first_line - 1, source.indentation)
    compiled = compile(module, code.co_filename, "exec", _future(code), dont_inherit=True)
    return _inner(_inner(compiled, "outer"), body.name).replace(co_qualname=code.co_qualname)


def _move(tree: ast.AST, n_lines: int, n_columns: int) -> None:
    """Moves *tree* down by *n_lines* and right by *n_columns*, to the place of the function in its file."""
    ast.increment_lineno(tree, n_lines)
    for each in ast.walk(tree) if n_columns else ():
        if isinstance(each, (ast.stmt, ast.expr)):
            each.col_offset += n_columns
            each.end_col_offset = (each.end_col_offset or 0) + n_columns


def _future(code: CodeType) -> int:
    """Returns the flags of the `from __future__` imports that *code* was compiled with."""
    known: int = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
    return code.co_flags & known


def _inner(code: CodeType, name: str) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)


def is_constexpr_annotation(node: ast.expr) -> bool:
    """Whether *node* is written as `tl.constexpr`, `constexpr`, or a text that ends so."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.rpartition(".")[2].strip() == "constexpr"
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "constexpr"


class _Calls(ast.NodeTransformer):
    """Puts calls in place of operators and around numbers. The functions within a function are functions of their own.

    `_pending` has the names that were annotated as constexpr and have no value yet.
    """

    def __init__(self) -> None:
        self.has_changed = False
        self._names = 0
        self._returns: _Returns | None = None
        self._pending = set[str]()
        self._is_iterated = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        kept = self._returns, self._pending
        self._returns, self._pending = _returns_of(node), set()
        is_typed = self._returns is not None
        self.generic_visit(node)
        if is_typed:
            at = 1 if ast.get_docstring(node) is not None and len(node.body) > 1 else 0
            start = ast.Assign([ast.Name(_MANY, ast.Store())], ast.Constant(False))
            node.body.insert(at, ast.copy_location(start, node.body[at]))
        self._returns, self._pending = kept
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        kept, self._returns = self._returns, None
        self.generic_visit(node)
        self._returns = kept
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return self._joined(node, AND if isinstance(node.op, ast.And) else OR, node.values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self._call(node, NOT, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Makes `assert` a `tl.device_assert`, which does not wait for a pending block."""
        self.generic_visit(node)
        arguments = [node.test] if node.msg is None else [node.test, node.msg]
        return ast.copy_location(ast.Expr(self._call(node, ASSERT, *arguments)), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Gives numbers `.to` and `.dtype`, and shapes a comparison with lists."""
        self.generic_visit(node)
        if node.attr == "shape" and isinstance(node.ctx, ast.Load):
            return self._call(node, SHAPE, node.value)
        if node.attr not in _OF_NUMBERS or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(ast.Attribute(self._call(node.value, TYPED, node.value), node.attr, node.ctx), node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        left, parts = node.left, list[ast.expr]()
        for number, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            again: ast.expr = right
            if number + 1 < len(node.ops) and not isinstance(right, ast.Name | ast.Constant):
                # Two comparisons use this operand, and it has to be evaluated once.
                right, again = self._kept(right)
            parts.append(ast.Compare(left, [op], [right]))
            left = again
        return self._joined(node, AND, parts)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        """Makes assigned numbers scalars. A name that was annotated as constexpr keeps its first value as it is."""
        self.generic_visit(node)
        names = {each.id for each in node.targets if isinstance(each, ast.Name)}
        if names & self._pending:
            self._pending -= names
        elif all(isinstance(each, ast.Name | ast.Tuple | ast.List) for each in node.targets):
            node.value = self._assigned(node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        is_constexpr = is_constexpr_annotation(node.annotation)
        if node.value is None:
            if is_constexpr and isinstance(node.target, ast.Name):
                self._pending.add(node.target.id)
        elif not is_constexpr and isinstance(node.target, ast.Name):
            node.value = self._assigned(node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        """Makes `x += y` of a name an assignment of `x + y`."""
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        value = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], self._assigned(value)), node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        self.generic_visit(node)
        node.value = self._assigned(node.value)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """Makes the number that a condition of the run chooses a scalar."""
        self.generic_visit(node)
        if self._is_iterated or not (_may_be_number(node.body) or _may_be_number(node.orelse)):
            return node
        test, again = self._kept(node.test)
        return self._call(node, MERGED, test, ast.copy_location(ast.IfExp(again, node.body, node.orelse), node))

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        """Leaves out what Python does not take in the iterable of a comprehension, which is a tuple and no number."""
        kept, self._is_iterated = self._is_iterated, True
        node.iter = self.visit(node.iter)
        self._is_iterated = kept
        node.ifs = [self.visit(each) for each in node.ifs]
        return node

    def visit_If(self, node: ast.If) -> ast.stmt:
        """Notes whether a condition with a `return` behind it is a value of the run."""
        decides = self._returns is not None and any(isinstance(each, ast.Return) for each in _own_nodes(node))
        node.test = self.visit(node.test)
        before = set(self._pending)
        node.body = self._all(node.body)
        after, self._pending = self._pending, before
        node.orelse = self._all(node.orelse)
        self._pending &= after
        if decides:
            test, again = self._kept(node.test)
            noted = ast.NamedExpr(ast.Name(_MANY, ast.Store()), self._call(node, RUNS, test, _name(_MANY)))
            is_never = ast.Compare(noted, [ast.Is()], [ast.Constant(None)])
            node.test = ast.copy_location(ast.BoolOp(ast.Or(), [is_never, again]), node.test)
        return node

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        """Makes a returned number a scalar, where Triton sees another number returned too."""
        returns = self._returns
        self.generic_visit(node)
        if returns is None or node.value is None or not _may_be_number(node.value):
            return node
        is_typed: ast.expr = ast.Constant(True) if node in returns.followed else _name(_MANY)
        equal: ast.expr = ast.Tuple([ast.Constant(each) for each in returns.equal], ast.Load())
        node.value = self._call(node.value, RETURNED, node.value, is_typed, *([equal] if returns.equal else []))
        return node

    def _all(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(each) for each in body]

    def _kept(self, value: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Returns an expression that evaluates *value*, and one that gives the same value again."""
        self._names += 1
        kept = f"__kb_{self._names}"
        first = ast.NamedExpr(ast.Name(kept, ast.Store()), value)
        return ast.copy_location(first, value), ast.copy_location(_name(kept), value)

    def _assigned(self, value: ast.expr) -> ast.expr:
        return self._call(value, ASSIGNED, value) if _may_be_number(value) else value

    def _joined(self, node: ast.expr, name: str, values: list[ast.expr]) -> ast.expr:
        *before, found = values
        for each in reversed(before):
            found = self._call(node, name, each, _later(found))
        return found

    def _call(self, node: ast.expr | ast.stmt, name: str, *arguments: ast.expr) -> ast.expr:
        self.has_changed = True
        return ast.copy_location(ast.Call(_name(name), list(arguments), []), node)


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _later(value: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, value)


def _may_be_number(value: ast.expr) -> bool:
    """Whether *value* may be a number, or have one as an element."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, (int, float))
    return not isinstance(value, ast.Lambda | ast.JoinedStr | ast.Dict | ast.Set)


class _Returns:
    """The `return` statements, of different values, of a function.

    `followed` are those after which Triton sees another one, whatever the conditions are: Triton goes on behind an `if`
    whose body returns. `equal` has the numbers of the elements that are equal in all returned tuples.
    """

    def __init__(self, found: list[ast.Return], followed: set[ast.Return]) -> None:
        self.followed = followed
        values = [each.value for each in found if each.value is not None]
        self.all_equal = len(set(map(ast.dump, values))) < 2
        tuples = [each.elts for each in values if isinstance(each, ast.Tuple)]
        self.equal: list[int] = []
        if len(tuples) == len(values) and len({len(each) for each in tuples}) == 1:
            self.equal = [at for at, each in enumerate(zip(*tuples, strict=True)) if len(set(map(ast.dump, each))) == 1]


def _returns_of(function: ast.FunctionDef) -> _Returns | None:
    """Returns what `visit_Return` needs to know; None for a function with one `return`, or with equal ones."""
    found = [each for each in _own_nodes(function) if isinstance(each, ast.Return)]
    returns = _Returns(found, set(_followed(function.body, False)))
    return None if len(found) < 2 or returns.all_equal else returns


def _followed(body: Iterable[ast.stmt], is_followed: bool) -> Iterator[ast.Return]:
    """Yields each `return` in *body* that another one follows. *is_followed* says whether one follows *body*."""
    statements = list(body)
    for at, each in enumerate(statements):
        later = is_followed or any(_has_return(other) for other in statements[at + 1 :])
        if isinstance(each, ast.Return):
            if is_followed:
                yield each
            return
        for _, inner in ast.iter_fields(each):
            if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt) and _is_block_of_code(each):
                yield from _followed(inner, later)


def _is_block_of_code(node: ast.stmt) -> bool:
    return not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _has_return(node: ast.stmt) -> bool:
    return isinstance(node, ast.Return) or any(isinstance(each, ast.Return) for each in _own_nodes(node))


def _own_nodes(node: ast.AST) -> Iterator[Any]:
    """Yields the nodes within *node* that are no part of a function within it."""
    for each in ast.iter_child_nodes(node):
        yield each
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _own_nodes(each)
