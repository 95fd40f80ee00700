"""Values from outside that a kernel uses: variables of the function around it, and globals of its file or cell."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt


def used_values(kernel: Callable[..., Any]) -> dict[str, str]:
    """Returns the outside values of *kernel* and of the functions that it calls, by name, as texts that differ with the
    value.

    A function is represented by a hash of its code, and an array by a hash of its bytes. Modules, classes and builtins
    are left out. An object whose text has its address is represented by its type.
    """
    found: dict[str, str] = {}
    _add(found, kernel, "", set())
    return found


def functions_used(kernel: Callable[..., Any]) -> list[FunctionType]:
    """Returns *kernel* and all functions that it calls by names from outside, directly or through others."""
    found: list[FunctionType] = []
    unseen: list[Any] = [kernel]
    while unseen:
        plain = inspect.unwrap(unseen.pop())
        if isinstance(plain, FunctionType) and plain not in found:
            found.append(plain)
            unseen += [value for _, value in sorted(_outside(plain).items()) if isinstance(value, FunctionType)]
    return found


def code_hash(function: FunctionType) -> str:
    """Returns a text that differs with the instructions and constants of *function*."""
    return _hashed(_code(function.__code__).encode())


def _add(found: dict[str, str], function: Any, prefix: str, seen: set[int]) -> None:
    plain = inspect.unwrap(function)
    if not isinstance(plain, FunctionType) or id(plain) in seen:
        return
    seen.add(id(plain))
    for name, value in sorted(_outside(plain).items()):
        if inspect.ismodule(value) or inspect.isclass(value) or inspect.isbuiltin(value):
            continue
        found[prefix + name] = _text(value)
        _add(found, value, f"{prefix}{name}.", seen)


def _outside(function: FunctionType) -> Mapping[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    free = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    named = _names(function.__code__)
    return {**{name: value for name, value in function.__globals__.items() if name in named}, **free}


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - a cell that is empty raises
    except ValueError:
        return False
    return True


def _names(code: CodeType) -> set[str]:
    """Returns the names of *code* and of the functions within it. Names of attributes are among them."""
    inner = [_names(each) for each in code.co_consts if isinstance(each, CodeType)]
    return set(code.co_names).union(*inner)


def _text(value: Any) -> str:
    if isinstance(value, FunctionType):
        return code_hash(inspect.unwrap(value))
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {_hashed(_bytes(value))}"
    try:
        text = _shown(value)
    except Exception:  # noqa: BLE001 - an object of an author may raise anything
        text = ""
    if not text or " at 0x" in text:
        return f"a {type(value).__name__}"
    return text if len(text) <= 100 else _hashed(text.encode())


def _code(code: CodeType) -> str:
    """Returns the instructions and constants of *code*, without its place in a file."""
    constants = [_code(each) if isinstance(each, CodeType) else _shown(each) for each in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"


def _shown(value: Any) -> str:
    """Returns the text of *value*. The elements of a set are sorted, which Python's own text does not do."""
    return str(sorted(map(repr, value))) if isinstance(value, (set, frozenset)) else repr(value)


def _bytes(array: npt.NDArray[Any]) -> bytes:
    return repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()


def _hashed(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
