"""The turns of the loops of a kernel, as far as its frames and its source show them: `for i in range(n)`.

Nothing is counted while a kernel runs. The turn of a loop is the value of its variable, and the number of turns follows
from the arguments of `range` where these are integers that names, shapes and arithmetic give.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable
from functools import lru_cache
from inspect import CO_NEWLOCALS
from types import FrameType
from typing import Any, NamedTuple

from kb_engine.program.author.cells import file_name
from kb_engine.program.author.kernel_lines import is_own

_RANGES = ("range", "static_range")
_OWN_MODULES = "kb_engine.", "kb_triton."


class LoopTurns(NamedTuple):
    """A loop at `line` that is in turn number `turn`, counted from 0, of `turns`."""

    line: str
    turn: int
    turns: int

    def __str__(self) -> str:
        return f"in turn {self.turn + 1:,} of {self.turns:,} of the loop at {self.line}"


def loops_of(frames: Iterable[FrameType]) -> list[LoopTurns]:
    """Returns the loops that are under way in *frames*, of which each called the next, the outermost loop first.

    A loop whose turns do not follow from its source is left out.
    """
    found: list[LoopTurns] = []
    for frame in frames:
        code = frame.f_code
        if code.co_flags & CO_NEWLOCALS and not is_own(code.co_filename):
            found += _loops_in(frame)
    return found


def frames_to(frame: FrameType | None) -> list[FrameType]:
    """Returns *frame* behind the frames that called it, the outermost first."""
    found: list[FrameType] = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found[::-1]


def share_done(loops: list[LoopTurns]) -> float:
    """Returns the share of a program, 0 to below 1, that is done where *loops* are all that it does."""
    done, share = 0.0, 1.0
    for each in loops:
        done += share * each.turn / each.turns
        share /= each.turns
    return done


def _loops_in(frame: FrameType) -> list[LoopTurns]:
    code, line = frame.f_code, frame.f_lineno
    lines = linecache.getlines(code.co_filename, frame.f_globals)
    around = [
        each for each in _loops("".join(lines)) if each.function == code.co_name and each.first <= line <= each.last
    ]
    found: list[LoopTurns] = []
    if around:
        names = frame.f_locals
        try:
            for each in around:
                turns = _turns(each, names, frame.f_globals)
                if turns is not None:
                    found.append(LoopTurns(f"{file_name(code.co_filename)}:{each.line}", *turns))
        finally:
            if isinstance(names, dict):  # before Python 3.13, a frame keeps this dictionary, and so values in TCM
                names.clear()
    return found


class _Loop(NamedTuple):
    """A `for` of `function` at `line`, over a range of `bounds`. Its body has the lines `first` to `last`."""

    function: str
    line: int
    first: int
    last: int
    variable: str
    bounds: tuple[ast.expr, ...]


@lru_cache(maxsize=64)
def _loops(source: str) -> list[_Loop]:
    """Returns the loops over ranges in *source*, outer loops before those within; none for source that is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    found: list[_Loop] = []
    todo: list[tuple[ast.AST, str]] = [(tree, "<module>")]
    while todo:
        node, function = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            function = getattr(node, "name", "<lambda>")
        loop = _as_loop(node, function)
        if loop is not None:
            found.append(loop)
        todo += [(child, function) for child in ast.iter_child_nodes(node)]
    return sorted(found, key=lambda each: each.first)


def _as_loop(node: ast.AST, function: str) -> _Loop | None:
    """Returns *node* as a loop of *function*; None unless it is a `for` with one name over a range."""
    if not (isinstance(node, ast.For) and isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call)):
        return None
    called, bounds = node.iter.func, tuple(node.iter.args)
    name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
    if name not in _RANGES or not 1 <= len(bounds) <= 3:
        return None
    last = node.body[-1].end_lineno or node.body[-1].lineno
    return _Loop(function, node.lineno, node.body[0].lineno, last, node.target.id, bounds)


def _turns(loop: _Loop, *names: Any) -> tuple[int, int] | None:
    """Returns the turn and the number of turns of *loop*, where its variable and its bounds are integers in *names*."""
    now = _integer(ast.Name(loop.variable), *names)
    bounds = [number for each in loop.bounds if (number := _integer(each, *names)) is not None]
    if now is None or len(bounds) < len(loop.bounds):
        return None
    start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if not step:
        return None
    turns, turn = -(-(stop - start) // step), (now - start) // step
    return (turn, turns) if 0 <= turn < turns else None


def _integer(node: ast.expr, *names: Any) -> int | None:
    """Returns the integer that *node* stands for, without running code of the author; None for anything else."""
    match node:
        case ast.Constant(value=int(constant)):
            return constant
        case ast.Name():
            return next((_plain(each[node.id]) for each in names if node.id in each), None)
        case ast.UnaryOp(op=ast.USub()):
            negated = _integer(node.operand, *names)
            return None if negated is None else -negated
        case ast.BinOp():
            return _computed(node.op, _integer(node.left, *names), _integer(node.right, *names))
        case ast.Call(args=[divided, by]) if getattr(node.func, "attr", getattr(node.func, "id", "")) == "cdiv":
            number, divisor = _integer(divided, *names), _integer(by, *names)
            return None if number is None or not divisor else -(-number // divisor)
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=int(axis))
        ):
            return _size(name, axis, *names)
    return None


def _plain(value: object) -> int | None:
    """Returns *value*, or the known number in a scalar of a kernel language, as an integer."""
    if type(value).__module__.startswith(_OWN_MODULES):
        value = getattr(value, "value", None)
    return value if type(value) is int else None


def _size(name: str, axis: int, *names: Any) -> int | None:
    """Returns a size of the shape of the value *name* of a kernel language."""
    value = next((each[name] for each in names if name in each), None)
    shape = getattr(value, "shape", ()) if type(value).__module__.startswith(_OWN_MODULES) else ()
    return _plain(shape[axis]) if isinstance(shape, tuple | list) and -len(shape) <= axis < len(shape) else None


def _computed(op: ast.operator, left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return None
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv() if right:
            return left // right
        case ast.Mod() if right:
            return left % right
    return None
