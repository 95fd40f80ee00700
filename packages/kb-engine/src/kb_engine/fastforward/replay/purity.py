"""Purity: a pure kernel only computes with its own values and calls its front end.

Design: docs/design/replay-and-purity.md

Programs of a pure kernel differ only by the program's number. Such a kernel keeps nothing between its programs and
reads nothing that changes. Its code decides; a kernel whose code leaves a doubt counts as impure.
"""

from __future__ import annotations

import dis
import math
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import pairwise
from types import (
    BuiltinFunctionType,
    EllipsisType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    NoneType,
)
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
from msgspec import Struct

from kb_engine.fastforward.replay.addresses import TEXTS, addresses_in, is_format
from kb_engine.fastforward.replay.dataclass_values import attributes_of, is_dataclass, is_frozen, written_attributes
from kb_engine.fastforward.replay.instructions import (
    ATTRIBUTES,
    CHANGES,
    INSTRUCTIONS,
    TAKES,
    Impurity,
    enclosed_by,
    instructions_of,
)
from kb_engine.fastforward.replay.namespaces import (
    BUILTINS,
    Reads,
    computes,
    functions_in,
    is_of_library,
    is_struct_of_own,
    is_transparent,
    package_of,
)
from kb_engine.program.author.kernel_lines import is_own
from kb_engine.program.values.handles import CompositeHandle, Handle, LoadedTensor
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.tensors import TensorRef

Unwrap: TypeAlias = Callable[[object], Iterable[FunctionType] | None]
"""Returns the functions that a value stands for, or None for an unknown value."""

GIVEN: Final = TensorRef, Handle, LoadedTensor, CompositeHandle, HostValue
"""Classes of the arguments of kernels in `tl`, and of the results of its calls."""
_MOST_NESTED: Final = 16
"""The depth of nested lists, dicts and dataclasses. Source: assumed; deeper ones take long to compare."""
_PLAIN: Final = frozenset((int, float, complex, str, bytes, bool, NoneType, EllipsisType, slice, range))
_OTHERS: Final = frozenset((
    "builtins", "collections", "enum", "typing", "numpy", "msgspec",
    "kb_dataexec", "kb_engine", "kb_messages", "kb_topology", "kb_triton",
))  # fmt: skip
"""Packages whose classes have no code of an author."""
_GENERATING: Final = _OTHERS - {"numpy"}
"""Packages whose functions may be attributes of an author's class, because they only compute."""
FIELDS: Final = (MemberDescriptorType, type(vars(dis.Positions)["lineno"]))
"""Types of the class attributes for a field of a Struct or of a named tuple."""

_REPLACED: Final = "a name that the kernel reads has been given code that does more than compute"


@runtime_checkable
class MadeKernel(Protocol):
    """A kernel that a front end has made of an author's functions, and of the arguments of a launch."""

    def is_repeatable(self) -> bool:
        """Whether programs of the kernel differ only by the program's number."""


def impurity_of(kernel: object, arguments: Sequence[Any], front_end: object = None) -> Impurity | None:
    """Returns why programs of *kernel* with *arguments* may differ by more than their numbers, or None if they do not.

    *front_end* is the class of the first argument, or makes it.
    """
    if isinstance(kernel, MadeKernel):
        is_fine = not arguments and kernel.is_repeatable()
        return None if is_fine else Impurity("a function of the kernel does more than compute with its own values")
    if not isinstance(kernel, FunctionType):
        return Impurity("the kernel is no plain function")
    purity = _Purity(lambda _: None)
    for number, each in enumerate(arguments, 1):
        if not purity.is_fixed(each):
            return Impurity(f"argument {number}, of type {type(each).__name__}, may change while programs run")
    if not (purity.is_pure(kernel) and purity.makes_no_text()):
        return purity.impurity
    front = [front_end, *GIVEN] if isinstance(front_end, type) else GIVEN
    return None if purity.reads_what_computes(front) else Impurity(_REPLACED)


def only_computes(
    kernel: FunctionType, values: Iterable[object], kinds: Iterable[type], unwrap: Unwrap, front: Sequence[type]
) -> bool:
    """Whether *kernel*, all functions that it calls, *values*, and the classes *kinds* of its arguments only compute.

    *unwrap* returns the functions that a value of the front end stands for, of which each has to be pure too. *front*
    has the classes of the values that the front end gives.
    """
    purity = _Purity(unwrap)
    is_pure = all(map(purity.is_plain, kinds)) and purity.is_pure(kernel) and all(map(purity.is_usable, values))
    return is_pure and purity.makes_no_text() and purity.reads_what_computes(front)


class _Purity:
    """Checks functions and classes, each once. *unwrap* is as for `only_computes`.

    After a list or a dict among the arguments, no function may have code that could change one.
    """

    def __init__(self, unwrap: Unwrap) -> None:
        self._unwrap = unwrap
        self._used: list[object] = []
        self._attributes: dict[str, None] = {}
        self._known: dict[FunctionType, bool] = {}
        self._plain: dict[int, type] = {}
        self._bare: dict[int, object] = {}
        self._has_containers = self._has_changes = self._has_formats = False
        self._remainders: list[tuple[dis.Instruction, FunctionType]] = []
        self._around: set[int] = set()
        self._found: dict[tuple[int, bool], object] = {}
        self.impurity = Impurity("the kernel, or a function that it calls, has names around it that may change")

    def makes_no_text(self) -> bool:
        """Whether the functions so far have no operator `%` beside a text with a place for any object."""
        if self._has_formats and self._remainders:
            self._note_cause(TEXTS, *self._remainders[0])
            return False
        return True

    def is_pure(self, function: FunctionType) -> bool:
        """Whether *function*, and each function that it calls, is pure."""
        if function not in self._known:
            self._known[function] = True  # a function that calls itself is as pure as the rest of it
            self._known[function] = self._is_pure_alone(function)
        return self._known[function]

    def _is_pure_alone(self, function: FunctionType) -> bool:
        """Whether a function that is checked for the first time is pure."""
        defaults, by_name = function.__defaults__ or (), function.__kwdefaults__ or {}
        if type(function.__globals__) is not dict:
            return False  # its code finds its names by that dict's methods
        try:
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
        except ValueError:  # an author's name that has no value yet
            return False
        around = [*defaults, *by_name.values(), *[each for each in cells if each is not np]]
        if function.__dict__ or not all(map(self.is_usable, around)):
            return False
        if self._shows_addresses(function):
            return False
        for each, following in pairwise(instructions_of(function.__code__)):
            if not self._is_harmless(each, following, function):
                self._note(each, function)
                return False
        return True

    def _shows_addresses(self, function: FunctionType) -> bool:
        """Whether addresses of objects may decide something in *function*."""
        findings = addresses_in(function.__code__)
        self._has_formats |= findings.has_formats
        self._remainders += [(each, function) for each in findings.remainders]
        for each, cause in findings.found:
            if each.opname != "LOAD_GLOBAL" or each.argval not in function.__globals__:
                self._note_cause(cause, each, function)
                return True
        return False

    def _takes_what_computes(self, instruction: dis.Instruction, function: FunctionType) -> bool:
        """Whether *instruction*, after the name of numpy, takes an attribute that only computes."""
        name = instruction.argval
        if instruction.opname in TAKES and computes(name):
            value = vars(np)[name]
            clear = is_transparent(value) or isinstance(value, ModuleType) or self._is_constant(value)
            if clear:
                self._used.append(value)
            if clear or self._is_same_in_a_launch(value):
                return True
        self._note(instruction, function)
        return False

    def _note(self, instruction: dis.Instruction, function: FunctionType) -> None:
        """Notes *instruction* of *function* as the impurity, unless an impurity of a called function was noted."""
        name, value = instruction.opname, instruction.argval
        if name in TAKES:
            cause = f"uses `.{value}`, which does or shows more than commands do"
        elif name == "LOAD_GLOBAL":
            cause = f"uses `{value}`, which may change between programs"
        else:
            cause = f"changes or reads more than its own values, by {name}"
        self._note_cause(cause, instruction, function)

    def _note_cause(self, cause: str, instruction: dis.Instruction, function: FunctionType) -> None:
        """Notes that the kernel does what *cause* says by *instruction*, unless an impurity was noted before."""
        if not self.impurity.filename:
            place, code = instruction.positions, function.__code__
            lineno = code.co_firstlineno if place is None or place.lineno is None else place.lineno
            self.impurity = Impurity(f"the kernel {cause}", code.co_filename, lineno)

    def reads_what_computes(self, front: Sequence[type]) -> bool:
        """Whether the attributes that the code reads in its namespaces and classes are the same for each program.

        The classes are the classes of its values and arguments, and *front*. Any object may have an attribute of such a
        name. An author's code among these values may read more, and has to be pure.
        """
        checked: set[int] = set()
        while True:
            given = [*front, *filter(is_struct_of_own, self._plain.values())]
            reads = Reads([*self._attributes], given, lambda each: self._unwrap(each) is not None, self._is_constant)
            read = reads.unclear([*self._used, *self._plain.values()])
            unclear = [each for each in read if id(each) not in checked]
            if not all(map(self._is_same_in_a_launch, unclear)):
                return False
            if not unclear:
                return True
            checked.update(map(id, unclear))

    def _is_same_in_a_launch(self, value: object) -> bool:
        """Whether each program of a launch finds *value* in a namespace as the first one does."""
        if self._unwrap(value) is None and is_of_library(value):
            return True
        functions = functions_in(value)
        return self.is_usable(value) if functions is None else all(map(self._is_same_in_a_launch, functions))

    def is_fixed(self, value: object) -> bool:
        """Whether only a kernel can change the argument *value*, and its code is pure."""
        if type(value) is list or type(value) is dict:
            self._has_containers = True
            if self._has_changes:
                return False
            parts = (*value, *value.values()) if isinstance(value, dict) else value
            return self._are_parts(value, parts, self.is_fixed)
        if is_dataclass(type(value)):
            return self.is_plain(type(value)) and self._are_parts(value, attributes_of(value).values(), self.is_fixed)
        return self._is_constant(value, self.is_fixed)

    def _are_parts(self, value: object, parts: Iterable[object], is_part: Callable[[object], bool]) -> bool:
        """Whether *is_part* is true for all *parts* of *value*, which is not nested in itself or too deeply."""
        key = id(value), is_part == self.is_fixed
        if key in self._found:
            return True
        if id(value) in self._around or len(self._around) >= _MOST_NESTED:
            return False
        self._around.add(id(value))
        found = all(map(is_part, parts))
        self._around.discard(id(value))
        if found:
            self._found[key] = value
        return found

    def is_plain(self, kind: type) -> bool:
        """Whether values of type *kind* have only code of builtins and kernbench, and pure functions."""
        if id(kind) in self._plain:
            return True
        self._plain[id(kind)] = kind
        if is_dataclass(kind):
            is_plain = self._is_plain_dataclass(kind)
        else:
            of_class: type = type(kind)
            kinds = [*kind.__mro__, *of_class.__mro__]
            authors = [each for each in kinds if package_of(each) not in _OTHERS]
            parts = ((each, name, part) for each in authors for name, part in vars(each).items())
            is_plain = all(self._is_plain_part(*each) for each in parts)
        if not is_plain:
            del self._plain[id(kind)]
        return is_plain

    def _is_plain_dataclass(self, kind: type) -> bool:
        """Whether the dataclass *kind* is plain."""
        attributes = written_attributes(kind)
        if attributes is None:
            return False
        for written in attributes:
            if any(isinstance(part, (staticmethod, classmethod)) for part in written.values()):
                return False
            if not all(self._is_plain_part(kind, name, part) for name, part in written.items()):
                return False
        return True

    def _is_plain_part(self, kind: type, name: str, part: object) -> bool:
        """Whether *part*, the attribute *name* of *kind*, only computes."""
        if isinstance(part, FIELDS):
            return True
        parts = [part]
        if type(part) is property:
            parts = [part.fget, part.fset, part.fdel]
        elif type(part) is staticmethod or type(part) is classmethod:
            parts = [part.__func__]
        for each in parts:
            if isinstance(each, FunctionType):
                made_in = str(each.__globals__.get("__name__", ""))  # a decorator may copy `__module__`
                is_generated = made_in.partition(".")[0] in _GENERATING or made_in == f"namedtuple_{kind.__name__}"
                if not (is_generated or self.is_pure(each)):
                    return False
            elif name.startswith("_"):
                is_bound = isinstance(each, (BuiltinFunctionType, MethodWrapperType)) and not is_transparent(each)
                of_author = package_of(each if isinstance(each, type) else type(each)) not in _OTHERS
                if is_bound or of_author or isinstance(each, (MethodType, property)):
                    return False
            elif self._is_constant(each):
                self._used.append(each)
            else:
                return False
        return True

    def _is_constant(self, value: object, is_part: Callable[[object], bool] | None = None) -> bool:
        """Whether *value* never changes, and *is_part* is true for its parts: by default, they have to be constants
        too."""
        is_part = is_part or self._is_constant
        kind = type(value)
        self._has_formats |= is_format(value)
        if kind in _PLAIN or isinstance(value, TensorRef):
            return kind is not slice or all(map(is_part, (value.start, value.stop, value.step)))  # type: ignore[attr-defined]
        if is_dataclass(kind):
            is_plain = is_frozen(kind) and self.is_plain(kind)
            return is_plain and self._are_parts(value, attributes_of(value).values(), is_part)
        if not isinstance(value, (tuple, Enum, Struct, np.generic)):
            return False
        if not (self.is_plain(kind) and self._is_bare(value)):
            return False
        if isinstance(value, tuple):
            return all(map(is_part, value))
        if isinstance(value, Enum):
            return self._is_constant(value.value)
        if isinstance(value, Struct):
            fields = [getattr(value, name) for name in value.__struct_fields__]
            return value.__struct_config__.frozen and all(map(is_part, fields))
        return not isinstance(value, (np.void, np.object_))

    def _is_bare(self, value: object) -> bool:
        """Whether *value* has only constants as attributes. Members of enums may have each other."""
        has = getattr(value, "__dict__", None)
        if not has or id(value) in self._bare:
            return True
        self._bare[id(value)] = value
        is_bare = all(name.startswith("_") or self._is_constant(each) for name, each in has.items())
        if not is_bare:
            del self._bare[id(value)]
        return is_bare

    def _is_harmless(self, instruction: dis.Instruction, following: dis.Instruction, function: FunctionType) -> bool:
        name, value = instruction.opname, instruction.argval
        if not CHANGES.isdisjoint((name, value, instruction.argrepr)):
            self._has_changes = True
            if self._has_containers:
                return False
        if name in INSTRUCTIONS:
            return False
        if name in ("STORE_DEREF", "DELETE_DEREF"):
            return value not in function.__code__.co_freevars
        if name in TAKES:
            self._attributes[value] = None
            return isinstance(value, str) and not value.startswith("_") and value not in ATTRIBUTES
        if name == "LOAD_DEREF" and enclosed_by(function, value) is np:
            return self._takes_what_computes(following, function)
        if name != "LOAD_GLOBAL":
            return True
        if value in function.__globals__:
            found = function.__globals__[value]
            return self._takes_what_computes(following, function) if found is np else self.is_usable(found)
        names = function.__builtins__  # type: ignore[attr-defined, unused-ignore]  # a cache of mypy does not have it
        return type(names) is dict and value in names and self._is_usable_builtin(names[value])

    def _is_usable_builtin(self, value: object) -> bool:
        """Whether the kernel may use *value*, which a program may have put in place of a builtin."""
        if (
            not isinstance(value, (BuiltinFunctionType, type))
            or not is_transparent(value)
            or value.__name__ not in BUILTINS
        ):
            return self.is_usable(value)
        return True

    def is_usable(self, value: object) -> bool:
        """Whether *value* is a constant, or a function or a module that a kernel may use."""
        if isinstance(value, FunctionType) and not is_own(value.__code__.co_filename):
            return self.is_pure(value)
        self._used.append(value)
        if isinstance(value, FunctionType):
            return self._is_bare(value)
        if self._is_constant(value):
            return True
        if value is math:
            return True
        if isinstance(value, type) and issubclass(value, (Enum, Struct)):
            return self.is_plain(value) and (issubclass(value, Enum) or value.__struct_config__.frozen)
        functions = self._unwrap(value)
        return functions is not None and all(map(self.is_pure, functions))
