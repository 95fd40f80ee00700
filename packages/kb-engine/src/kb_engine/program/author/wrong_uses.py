"""Converts Python's errors about a wrong use of `tl` to errors that name a use that works."""

from __future__ import annotations

import re
from inspect import Parameter, signature
from typing import Final

from kb_engine.program.values.handles import Handle
from kb_engine.program.values.tensors import TensorRef
from kb_engine.program.values.transposed import LaidOutOperators
from kb_messages import KernelError
from kb_topology import near_names

_DOCS: Final = "docs/tl.md lists all names"
_CALL: Final = re.compile(r"(\w+)\.(\w+)\(\) (.+)")
_OPERATION: Final = re.compile(r"unsupported operand type\(s\) for (\S+?)=?(?: or pow\(\))?: '(\w+)' and '(\w+)'")
_COMPARISON: Final = re.compile(r"'(\S+)' not supported between instances of '(\w+)' and '(\w+)'")
_OF_ONE: Final = re.compile(r"bad operand type for (?:unary )?(\S+?)(?:\(\))?: '(\w+)'")
_CALLS: Final = {"**": "pow", "abs": "abs"}
_TOO_MANY: Final = re.compile(r"takes .*positional arguments? but (\d+) (?:was|were) given")
_UNKNOWN: Final = re.compile(r"got an unexpected keyword argument '(\w+)'")
_MISSING: Final = re.compile(r"missing \d+ required (?:positional|keyword-only) arguments?: (.+)")


def wrong_use(error: BaseException, line: str, language: object) -> KernelError | None:
    """The KernelError of a wrong use of *language*, the class of `tl`, for *error*, which a kernel statement at *line*
    raised.

    None for an error that has nothing to do with the language.
    """
    if not isinstance(language, type):
        return None
    if isinstance(error, AttributeError):
        return _unknown_name(error, line, language)
    if not isinstance(error, TypeError):
        return None
    operation = _wrong_operation(str(error), line, language)
    if operation is not None:
        return operation
    found = _CALL.fullmatch(str(error))
    if found is None or found[1] not in {each.__name__ for each in language.__mro__}:
        return None
    return KernelError(line, f"tl.{found[2]} {_said_of(found[3])}", _call_of(language, found[2]))


def _wrong_operation(said: str, line: str, language: type) -> KernelError | None:
    """The error of an operator that tensors in memory or values in TCM do not have, from the text of Python's error."""
    found = _OPERATION.fullmatch(said) or _COMPARISON.fullmatch(said) or _OF_ONE.fullmatch(said)
    if found is None or not _names_of_values() & set(found.groups()[1:]):
        return None
    operator, *operands = found.groups()
    got = f" {operator} ".join(operands) if len(operands) > 1 else f"{operator} of a {operands[0]}"
    if operator == "@":
        return KernelError(line, got, "tl.dot(a, b) of two values in TCM")
    if TensorRef.__name__ in operands:
        return KernelError(line, got, "values in TCM", "tl.load brings elements of a tensor there")
    call = _CALLS.get(operator, "")
    return KernelError(line, got, _call_of(language, call)) if hasattr(language, call) else None


def _unknown_name(error: AttributeError, line: str, language: type) -> KernelError | None:
    name, of = error.name or "", error.obj
    if isinstance(of, language):
        names = [each for each in dir(language) if not each.startswith("_")]
        near = [f"tl.{each}" for each in near_names(name, names)]
        fix = f"did you mean {' or '.join(near)}? {_DOCS}" if near else _DOCS
        return KernelError(line, f"tl.{name}, which tl does not have", "a function that it has", fix)
    if not isinstance(of, (Handle, LaidOutOperators)):
        return None
    names = [each for each in dir(type(of)) if not each.startswith("_")]
    near = [f".{each}" for each in near_names(name, names)]
    if not name.startswith("_") and hasattr(language, name):
        near = [_call_of(language, name)]
    fix = f"did you mean {near[0]}? {_DOCS}" if near else _DOCS
    return KernelError(line, f".{name} of a value in TCM", "a name that such a value has", fix)


def _names_of_values() -> set[str]:
    """The names of the classes of tensors and of values in TCM."""
    found: list[type] = [TensorRef, Handle, LaidOutOperators]
    for each in found:
        found += each.__subclasses__()
    return {each.__name__ for each in found}


def _said_of(problem: str) -> str:
    """The mistake of a call, from *problem*, the text of Python's error. Python counts `tl` as an argument."""
    if found := _TOO_MANY.match(problem):
        given = int(found[1]) - 1
        return f"with {given} argument{'s' * (given != 1)}"
    if found := _UNKNOWN.match(problem):
        return f"with {found[1]}="
    found = _MISSING.match(problem)
    return f"without {found[1]}" if found else f"that {problem}"


def _call_of(language: type, name: str) -> str:
    """The call of `tl.name` with its parameters."""
    parameters = list(signature(getattr(language, name)).parameters.values())[1:]
    listed = ", ".join(str(each.replace(annotation=Parameter.empty)) for each in parameters)
    return f"tl.{name}({listed})"
