"""Mutates the source of kb-plans, one expression at a time, and counts the mutants that its tests notice.

    python tests_integration/mutation/mutation_source.py                       # every mutant; many minutes
    python tests_integration/mutation/mutation_source.py --every 20
    python tests_integration/mutation/mutation_source.py --file tiles/waves.py --tests test_waves.py

The tests run once, and each line of the source keeps the tests that reach it. Each mutant then has a process of its
own, in which one function has other code, and the tests of the changed line run until one fails. A mutant that no test
notices has to be in EQUIVALENT, with the reason why it changes nothing that a caller can see. The exit code is 1 where
such a mutant of a file in HELD is missing there; mutants of other files are counted and listed.
"""

from __future__ import annotations

import argparse
import ast
import functools
import inspect
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

import kb_plans

SOURCES: Final = Path(kb_plans.__file__).parent
TESTS: Final = Path(__file__).parents[2] / "packages" / "kb-plans" / "tests"
_LONGEST_S: Final = 60
"""A mutant whose tests take longer loops for ever, and counts as noticed."""
_OPERATORS: Final[dict[type, tuple[type, ...]]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.FloorDiv: (ast.Mult,),
    ast.Div: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
    ast.Lt: (ast.LtE,),
    ast.LtE: (ast.Lt,),
    ast.Gt: (ast.GtE,),
    ast.GtE: (ast.Gt,),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_NAMES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
HELD: Final = (
    "accumulator.py",
    "atomic.py",
    "checks.py",
    "command.py",
    "counts.py",
    "epilogue.py",
    "math.py",
    "templates.py",
    "tiles/estimate.py",
    "tiles/room.py",
    "tiles/waves.py",
)
"""The files of which every mutant is noticed or equivalent."""
EQUIVALENT: Final = {
    "tiles/waves.py: suggest_waves: each.estimated_ps <= limit_ps -> each.estimated_ps < limit_ps": (
        "the limit is an assumed part of 15 %, and no whole number of ps lies on it"
    ),
    "tiles/waves.py: _fits: 0 -> 1": "no step, as one step, is less than the two steps that a tile needs",
    "math.py: shape_of: True -> False": "a shape has two sides",
    "tiles/estimate.py: _channels: True -> False": "a kind of tiles has one time for each of its types",
    "tiles/search.py: sides_of: 11 -> 12": "the sides of that power are longer than the longest side that is tried",
    "tiles/suggest.py: suggest_math_tile: True -> False": "a shape has two sides",
    "tiles/tile_times.py: TileTimes.least_ps: True -> False": "a kind of tiles has one time for each of its types",
    "transfer.py: _check_pieces: 0 -> 1": "without pieces, no piece is compared with the first one's memory",
    "vectors/carry.py: _kinds: True -> False": "an op reads as many values as it has arguments",
    "vectors/pieces.py: PieceStages._read: True -> False": "an op reads as many values as it has arguments",
    "vectors/strips.py: strips_of_rows: one.rows > 1 -> one.rows >= 1": "a row is no multiple of two parts or more",
    "vectors/strips.py: strips_of_rows: op.result.rows > 1 -> op.result.rows >= 1": (
        "a row is no multiple of two parts or more"
    ),
    "vectors/strips.py: strips_of_rows: op.result.rows > 1 and op.result.rows % size == 0 -> "
    "op.result.rows > 1 or op.result.rows % size == 0": "the parts divide the rows of every result of several rows",
}
"""Mutants that no test can notice, by name, and the reason of each."""


class Mutant(NamedTuple):
    """One changed expression: its file, the function around it, the line, both texts, and the code of the function."""

    file: str
    function: str
    line: int
    before: str
    after: str
    code: CodeType

    @property
    def name(self) -> str:
        """The mutant without its line, so that a name stays when lines move."""
        return f"{self.file}: {self.function}: {self.before} -> {self.after}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """The mutants of all functions of the module *path*."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    # Each function is compiled without the others of its module, because a whole module takes longer.
    futures = [each for each in tree.body if isinstance(each, ast.ImportFrom) and each.module == "__future__"]
    around = {
        name: ast.Module(body=[*futures, each], type_ignores=[])
        for each in tree.body
        for name, _ in _functions(ast.Module(body=[each], type_ignores=[]), "")
    }
    for name, function in _functions(tree, ""):
        for node in list(_own_nodes(function)):
            for field, value in _changes(node):
                kept, before = getattr(node, field), ast.unparse(node)
                setattr(node, field, value)
                after = ast.unparse(node)
                code = _code_in(compile(around[name], str(path), "exec"), name)
                setattr(node, field, kept)
                yield Mutant(str(path.relative_to(SOURCES)), name, node.lineno, before, after, code)


def _functions(node: ast.AST, around: str) -> Iterator[tuple[str, ast.AST]]:
    """The outermost functions of *node*, and of the classes in it, with their qualified names."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, (ast.FunctionDef, ast.ClassDef)):
            name = f"{around}{each.name}"
            if isinstance(each, ast.ClassDef):
                yield from _functions(each, f"{name}.")
            else:
                yield name, each


def _own_nodes(function: Any) -> Iterator[Any]:
    """The expressions in the body of *function*, without errors' texts and annotations."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Raise, ast.JoinedStr)):
            continue
        if isinstance(node, ast.AnnAssign):
            todo += [node.value] if node.value is not None else []
            continue
        yield node
        todo += ast.iter_child_nodes(node)


def _changes(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """The fields of *node* that are changed, each with its new value."""
    if isinstance(node, (ast.BinOp, ast.AugAssign, ast.BoolOp)):
        yield from (("op", other()) for other in _OPERATORS.get(type(node.op), ()))
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from (("ops", [other()]) for other in _OPERATORS.get(type(node.ops[0]), ()))
    elif isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            yield from (
                ("ops", [*node.ops[:at], other(), *node.ops[at + 1 :]]) for other in _OPERATORS.get(type(op), ())
            )
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "value", node.value + 1
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "value", not node.value
    elif isinstance(node, ast.Name) and node.id in _NAMES:
        yield "id", _NAMES[node.id]
    elif isinstance(node, (ast.If, ast.IfExp)):
        yield "test", ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)


def _code_in(code: CodeType, name: str) -> CodeType:
    """The code of the function *name* in the code of its module."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_qualname == name:
                return each
            if name.startswith(f"{each.co_qualname}."):
                return _code_in(each, name)
    raise LookupError(name)


class Found(NamedTuple):
    """The counts of a sweep, the names of the mutants that nobody noticed, and of those that no test reaches."""

    tried: int
    noticed: int
    survived: list[str]
    unreached: list[str]


class Sweep:
    """A plugin of pytest that runs the tests of kb-plans on mutants in place of the tests themselves."""

    def __init__(self, files: list[str], every: int, first: int) -> None:
        self._files = files
        self._every = every
        self._first = first
        self.found = Found(0, 0, [], [])

    def pytest_sessionstart(self) -> None:
        """Lets hypothesis draw the same examples each time, however long they take under a trace."""
        import hypothesis  # pytest has to import it first, to rewrite its assertions

        checks, phases = tuple(hypothesis.HealthCheck), (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        profile = {"deadline": None, "derandomize": True, "suppress_health_check": checks, "phases": phases}
        hypothesis.settings.register_profile("mutants", **profile)
        hypothesis.settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Runs the tests once, then on each mutant. Returns True, because no test is left to run."""
        reached = self._reached(session.items)
        tried = noticed = 0
        survived, unreached = list[str](), list[str]()
        paths = [path for path in sorted(SOURCES.rglob("*.py")) if str(path.relative_to(SOURCES)) in self._files]
        every = (mutant for path in paths for mutant in mutants_of(path))
        for number, mutant in enumerate(every):
            if number % self._every != self._first:
                continue
            tried += 1
            items = reached.get((str(SOURCES / mutant.file), mutant.line), [])
            if items and _is_noticed(mutant, items):
                noticed += 1
            elif items:
                survived.append(mutant.name)
                print(f"\nsurvived: {mutant.file}:{mutant.line} {mutant.name}", flush=True)
            else:
                unreached.append(mutant.name)
        self.found = Found(tried, noticed, survived, unreached)
        return True

    def _reached(self, items: list[pytest.Item]) -> dict[tuple[str, int], list[pytest.Item]]:
        """The tests that reach each line, by file and line, the quickest first."""
        took: dict[str, float] = {}
        lines: dict[str, set[tuple[str, int]]] = {}
        for item in items:
            own = lines[item.nodeid] = set()

            def note(frame: FrameType, event: str, _: object, own: set[tuple[str, int]] = own) -> Any:
                if not frame.f_code.co_filename.startswith(str(SOURCES)):
                    return None
                own.add((frame.f_code.co_filename, frame.f_lineno))
                return note

            _forget_answers()
            begin = time.perf_counter()
            sys.settrace(note)
            try:
                reports = runtestprotocol(item, log=False)
            finally:
                sys.settrace(None)
            took[item.nodeid] = time.perf_counter() - begin
            assert not any(each.failed for each in reports), f"{item.nodeid} fails without a mutant"
        found: dict[tuple[str, int], list[pytest.Item]] = {}
        for item in sorted(items, key=lambda each: took[each.nodeid]):
            for line in lines[item.nodeid]:
                found.setdefault(line, []).append(item)
        return found


def _is_noticed(mutant: Mutant, items: list[pytest.Item]) -> bool:
    """Whether one of *items* fails on *mutant*, in a process of its own."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(_LONGEST_S)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            _put_in_place(mutant)
            _forget_answers()
            failed = any(each.failed for item in items for each in _run(item))
            status = 1 if failed else 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def _run(item: pytest.Item) -> list[pytest.TestReport]:
    return runtestprotocol(item, log=False)


def _put_in_place(mutant: Mutant) -> None:
    """Gives the function of the mutant's name the code of *mutant*."""
    found: Any = sys.modules[
        ".".join((kb_plans.__name__, *Path(mutant.file).with_suffix("").parts)).removesuffix(".__init__")
    ]
    for name in mutant.function.split("."):
        found = vars(found)[name]
    found = getattr(found, "fget", None) or getattr(found, "func", None) or inspect.unwrap(found)
    getattr(found, "__func__", found).__code__ = mutant.code


def _forget_answers() -> None:
    """Clears all caches of functions, so that each test computes."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("kb_plans", "kb_messages"):
            spaces = [vars(module), *(vars(each) for each in vars(module).values() if isinstance(each, type))]
            for each in itertools.chain.from_iterable(space.values() for space in spaces):
                if isinstance(each, functools._lru_cache_wrapper):
                    each.cache_clear()


def sweep(files: list[str], every: int = 1, first: int = 0, tests: str = "") -> Found:
    """Every n-th mutant of *files* from number *first* on; the names of the files are relative to the package.

    *tests* is a file of tests; by default all tests of kb-plans run. Raises RuntimeError where they fail by themselves.
    """
    plugin = Sweep(files, every, first)
    switches = "-q -p no:cacheprovider -p no:xdist -o timeout=0 --no-header --no-summary"
    options = [*switches.split(), str(TESTS / tests)]
    if pytest.main(options, plugins=[plugin]) not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError("the tests of kb-plans do not run without a mutant")
    return plugin.found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="try every n-th mutant only")
    parser.add_argument("--first", type=int, default=0, help="the number of the first mutant")
    parser.add_argument("--file", action="append", help="a file of kb_plans, such as tiles/waves.py; default: all")
    parser.add_argument("--tests", default="", help="a file of tests, such as test_waves.py; default: all")
    options = parser.parse_args()
    files = options.file or [str(path.relative_to(SOURCES)) for path in sorted(SOURCES.rglob("*.py"))]
    found = sweep(files, options.every, options.first, options.tests)
    missed = [name for name in (*found.survived, *found.unreached) if name not in EQUIVALENT]
    known = len(found.survived) + len(found.unreached) - len(missed)
    print(f"{found.tried} mutants, {found.noticed} noticed, {known} known as equivalent, {len(missed)} missed")
    print(*missed, sep="\n")
    return any(name.startswith(HELD) for name in missed)


if __name__ == "__main__":
    sys.exit(main())
