"""The key of a launch: all that decides what it does, and when, on a chip where nothing is under way.

Launches with one key do the same at other addresses. A kernel decides by its code, by the constants that the code uses,
and by its arguments. What it issues follows from the shapes of tensors and from the memory that each of their blocks
lies in. Times follow from where in a burst a block begins, too, and what becomes pending from which blocks are one. The
names of tensors are no part of it, so launches whose kernels read one are not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from functools import lru_cache
from itertools import chain, count, pairwise
from operator import add
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple
from weakref import ref

import numpy as np
from msgspec import Struct

from kb_engine.language.tl import Language
from kb_engine.observe.by_event import WhyNot
from kb_engine.program.runner import KernelCall
from kb_engine.program.tensors import Tensor, TensorRef, spans_of
from kb_engine.template.dataclass_values import attributes_of, is_dataclass
from kb_engine.template.instructions import compares_by_identity, constants_of
from kb_engine.template.namespaces import Untold, is_told
from kb_engine.template.purity import FIELDS, GIVEN, impurity_of, used_by
from kb_messages import OFFSET_BITS, CubeTarget

_HIDDEN: Final = frozenset(("tensor", "plain_matrix"))
"""Attributes by which a kernel could tell addresses."""
_FRONT: Final = Language, *GIVEN
"""Classes of what kernels are given, and of what calls give them."""
_FOUND: Final = (FunctionType, BuiltinFunctionType, *FIELDS)
"""Types of what code finds under its names that stand for themselves."""
_SIMPLE: Final = (int, str, bytes, bool, type(None), type(Ellipsis))
_OWN: Final = frozenset(("kb_messages", "kb_engine"))
"""Packages whose types have no code that decides by anything else than its values."""
_MOST_TENSORS: Final = 1 << 18
"""Tensors of the layouts that are kept, and of those that have numbers. Source: assumed; one takes 0.7 kB, also when it
is freed."""


_MOST_WHYS: Final = 1 << 8
"""Kernels without a key of which is known why. Source: assumed."""
_OVERLAP: Final = WhyNot("blocks of its tensors overlap", "pass tensors that share no bytes but whole blocks")
_HIDES: Final = WhyNot(
    "the kernel reads attributes of tensors that tell addresses", "let the kernel use shapes and elements alone"
)
PARTS: Final = (
    WhyNot(
        "its tensors have other shapes, lie in other memories or elsewhere in a burst than those of an earlier launch",
        "launch with tensors that are made alike, in an order of their own",
    ),
    WhyNot("what the kernel's code uses has changed", "pass what changes as an argument of few values"),
    WhyNot("its arguments are others than those of an earlier launch", "pass equal arguments"),
    WhyNot("it is on other PEs than an earlier launch", "launch on the same PEs"),
    WhyNot("it names other PEs to the host than an earlier launch", "launch with the same targets"),
    WhyNot("its kernel lies below another folder", "launch with one root"),
)
"""What it says that a part of the `form` of a key is another one."""


class LaunchKey(NamedTuple):
    """*form* is what launches have in common, and *spans* are from where to where the blocks of this one's tensors lie.

    *code* has the functions that *form* names by their ids, which are theirs as long as somebody has them. *where* has
    the PEs, and those that the host names.
    """

    form: Hashable
    spans: Sequence[tuple[int, int]]
    code: list[CodeType]
    where: Hashable


class _Layout(NamedTuple):
    """Where *tensors* lie: their blocks at *spans*. Those that kernels cannot tell apart have a *number*; None for
    blocks that overlap."""

    tensors: list[Tensor]
    number: int | None
    spans: Sequence[tuple[int, int]]


class LaunchKeys:
    """Finds keys. A write of a memory begins somewhere in a burst; *burst_nbytes* is a multiple of all bursts."""

    def __init__(self, burst_nbytes: int) -> None:
        self._burst_nbytes = burst_nbytes
        self._layouts: dict[tuple[int, ...], _Layout] = {}
        self._numbers: dict[Hashable, int] = {}
        self._count = count()
        self._whys: dict[CodeType | None, WhyNot] = {}
        self._n_found = self._n_numbered = 0

    def of(self, call: KernelCall, pe_ids: Sequence[str], targets: Sequence[CubeTarget] | None) -> LaunchKey | WhyNot:
        """The key of a launch of *call* on *pe_ids*, or why its parts do not tell what the launch does."""
        kernel = call.kernel
        used = used_by(kernel, call.arguments, _HIDDEN, _FRONT) if isinstance(kernel, FunctionType) else None
        if used is None:
            return self._why_not_known(call)
        codes = [each for each in used if isinstance(each, CodeType)]
        forms = _FormsByIdentity() if any(map(compares_by_identity, codes)) else _Forms()
        try:
            code = tuple([forms.of_used(each) for each in used])
            arguments = tuple([forms.of(each) for each in call.arguments])
            there = None if targets is None else tuple([forms.of_target(each) for each in targets])
        except _NoFormError:
            return _why_no_form(used, call)
        layout = self._layout([*forms.tensors.values()])
        if layout.number is None:
            return _OVERLAP
        where = tuple(pe_ids), there
        return LaunchKey((layout.number, code, arguments, *where, call.root), layout.spans, codes, where)

    def _why_not_known(self, call: KernelCall) -> WhyNot:
        """Why nothing is known of the kernel of *call*: what the look at it met first, once for all of its launches."""
        code = getattr(call.kernel, "__code__", None)
        why = self._whys.get(code)
        if why is None:
            if len(self._whys) >= _MOST_WHYS:
                self._whys.clear()
            impurity = impurity_of(call.kernel, call.arguments, Language)
            why = self._whys[code] = _HIDES if impurity is None else impurity.why(call.root)
        return why

    def _layout(self, tensors: list[Tensor]) -> _Layout:
        """That of *tensors*. It is found once."""
        ids = tuple(map(id, tensors))
        known = self._layouts.get(ids)
        if known is None:
            self._n_found += len(tensors)
            if self._n_found > _MOST_TENSORS:
                self._layouts.clear()
                self._n_found = len(tensors)
            known = self._layouts[ids] = self._new_layout(tensors)
        return known

    def _new_layout(self, tensors: list[Tensor]) -> _Layout:
        spans = [span for tensor in tensors for span in _spans(tensor)]
        blocks = dict.fromkeys(sorted(spans))
        if any(end > begin for (_, end), (begin, _) in pairwise(blocks)):
            return _Layout(tensors, None, spans)
        same: tuple[int, ...] = ()
        if len(blocks) < len(spans):
            firsts = {span: number for number, span in reversed(list(enumerate(spans)))}
            same = tuple([firsts[span] for span in spans])
        form = (
            tuple(map(_form_of_tensor, tensors)),
            tuple([begin >> OFFSET_BITS for begin, _ in spans]),
            tuple([begin % self._burst_nbytes for begin, _ in spans]),
            same,
        )
        number = self._numbers.get(form)
        if number is None:
            self._n_numbered += len(tensors)
            if self._n_numbered > _MOST_TENSORS:
                self._numbers.clear()
                self._n_numbered = len(tensors)
            number = self._numbers[form] = next(self._count)
        return _Layout(tensors, number, spans)


def _form_of_tensor(tensor: Tensor) -> Hashable:
    """What tensors have in common that kernels cut alike."""
    bounds = tensor.row_bounds, tensor.col_bounds
    near = tuple(tensor.near.items())
    return tensor.shape, tensor.dtype, bounds, len(tensor.copies), tensor.shards, near


def _spans(tensor: Tensor) -> list[tuple[int, int]]:
    """From where to where each block of each copy of *tensor* lies."""
    sizes = _nbytes_of_blocks(tensor.row_bounds, tensor.col_bounds, tensor.dtype.nbytes)
    found: list[tuple[int, int]] = []
    for grid in (tensor.addresses, *tensor.copies):
        begins = [*chain.from_iterable(grid)]
        found += zip(begins, map(add, begins, sizes), strict=True)
    return found


@lru_cache(maxsize=64)
def _nbytes_of_blocks(row_bounds: tuple[int, ...], col_bounds: tuple[int, ...], nbytes: int) -> list[int]:
    """The bytes of each block, row by row, of a tensor with elements of *nbytes*. Many tensors are cut alike."""
    heights, widths = ([end - start for start, end in pairwise(each)] for each in (row_bounds, col_bounds))
    return [height * width * nbytes for height in heights for width in widths]


class _NoFormError(Exception):
    """A value that says less than it decides."""


def _name_of(member: Enum) -> str:
    """The name of *member*. Raises _NoFormError for one with an author's attribute, which a kernel could read."""
    if any(not (name.startswith("_") or hasattr(type(member), name)) for name in vars(member)):
        raise _NoFormError
    return member.name


def _why_no_form(used: Sequence[object], call: KernelCall) -> WhyNot:
    """What of *used* and of the arguments of *call* has no form."""
    for number, value in enumerate(call.arguments, 1):
        if not _has_form(_Forms().of, value):
            cause = f"argument {number}, of type {type(value).__name__}, decides by more than a key can tell"
            return WhyNot(cause, "pass numbers, texts and tensors that are not mapped or gathered")
    found = next((each for each in used if not _has_form(_Forms().of_used, each)), None)
    cause = f"the kernel uses something of type {type(found).__name__}, which decides by more than a key can tell"
    return WhyNot(cause, "let the kernel use its arguments and constants alone")


def _has_form(form_of: Callable[[Any], Hashable], value: object) -> bool:
    try:
        form_of(value)
    except _NoFormError:
        return False
    return True


class _Forms:
    """Forms of values, which name the tensors among them by their places in `tensors`.

    References, lists and dicts have numbers, because a kernel can tell whether two of them are one. So has a NaN, which
    is in a list where that very NaN is.
    """

    def __init__(self) -> None:
        self.tensors: dict[int, Tensor] = {}
        self._places: dict[int, int] = {}
        self._numbers: dict[int, int] = {}

    def of(self, value: Any) -> Hashable:
        """What *value* has in common with values that decide the same. Raises _NoFormError."""
        kind = type(value)
        if kind in _SIMPLE:
            return kind, value
        if kind is tuple:
            return kind, tuple(map(self.of, value))
        if kind is list:
            return kind, self._number_of(value), tuple(map(self.of, value))
        if kind is TensorRef:
            return self._of_reference(value)
        if kind is float:
            return kind, value.hex() if value == value else self._number_of(value)
        if kind is dict:
            items = tuple([(self.of(name), self.of(each)) for name, each in value.items()])
            return kind, self._number_of(value), items
        if kind in (slice, range):
            return kind, self.of(value.start), self.of(value.stop), self.of(value.step)
        if issubclass(kind, np.generic) and kind.__module__ == "numpy":
            return kind, value.dtype.str, value.tobytes(), 0 if value == value else self._number_of(value)
        return self._of_class(kind, value)

    def _of_class(self, kind: type[Any], value: Any) -> Hashable:
        """As `of`, for a named tuple or a value of a dataclass, of whose class the kernel uses all, and for values of
        classes of kernbench."""
        if issubclass(kind, tuple) and not getattr(value, "__dict__", None):
            own = self._number_of(value) if kind.__eq__ is not tuple.__eq__ else 0  # Python takes itself for equal
            return ref(kind), own, tuple(map(self.of, tuple.__iter__(value)))
        if is_dataclass(kind):
            if id(value) in self._numbers:
                return ref(kind), self._number_of(value)
            number, has = self._number_of(value), attributes_of(value).items()
            return ref(kind), number, tuple([(name, self.of(each)) for name, each in has])
        if kind.__module__.partition(".")[0] not in _OWN:
            raise _NoFormError
        if issubclass(kind, Enum):
            return kind, _name_of(value)
        if issubclass(kind, Struct):
            return kind, tuple([self.of(getattr(value, name)) for name in value.__struct_fields__])
        raise _NoFormError

    def of_used(self, value: object) -> Hashable:
        """As `of`, for what the code of a kernel is made of or uses. Functions of numpy warn anew at each launch."""
        if isinstance(value, CodeType):
            return self._of_code(value)
        if isinstance(value, _FOUND) or is_told(value):
            if isinstance(value, np.ufunc) or (isinstance(value, type) and issubclass(value, np.generic)):
                raise _NoFormError
            return type(value), value
        if value is math:
            return ModuleType, value
        if isinstance(value, (TensorRef, Untold)):
            raise _NoFormError
        return self.of(value)

    def _of_code(self, code: CodeType) -> Hashable:
        return CodeType, id(code)

    def of_target(self, target: CubeTarget) -> Hashable:
        """As `of`, for the PEs that the host names."""
        return target.sip, target.cube, target.pes if target.pes == "all" else tuple(target.pes)

    def _number_of(self, value: object) -> int:
        return self._numbers.setdefault(id(value), len(self._numbers))

    def _of_reference(self, ref: TensorRef) -> Hashable:
        tensor = ref.tensor
        if ref.indices is not None or tensor.virtual:
            raise _NoFormError
        self.tensors[id(tensor)] = tensor
        place = self._places.setdefault(id(tensor), len(self._places))
        return TensorRef, self._number_of(ref), place, spans_of(ref), ref.copy


class _FormsByIdentity(_Forms):
    """The forms for a kernel that compares by `is`: all values have numbers, and so have the constants of its code."""

    def of(self, value: Any) -> Hashable:
        """As `_Forms.of`."""
        return super().of(value), self._number_of(value)

    def _of_code(self, code: CodeType) -> Hashable:
        return super()._of_code(code), tuple(map(self._number_of, constants_of(code)))
