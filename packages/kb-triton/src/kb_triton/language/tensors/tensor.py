"""tensor: the blocks and scalars of a kernel. A scalar is a tensor without axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

import numpy as np

from kb_engine.program import Handle
from kb_topology import near_names
from kb_triton.language.tensors.dtypes import block_type, dtype
from kb_triton.language.tensors.program import answer_of, machine, refuse
from kb_triton.language.tensors.values import FORMS, NUMBERS, Data, DotResult, Turned

_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {}


def provide(**functions: Callable[..., Any]) -> None:
    """Gives `tensor` operators and methods. They are defined in modules that import this one."""
    _FUNCTIONS.update(functions)


def provided(name: str) -> Callable[..., Any]:
    """Returns the function *name* of `provide`."""
    return _FUNCTIONS[name]


def _operator(op: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: _FUNCTIONS["binary"](op, self, other)


def _reflected(op: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: _FUNCTIONS["binary"](op, other, self)


_HINTS: Final = {
    "load": ": use tl.load(pointer)",
    "handle": ": it is a value of Triton's compiler, and nothing is compiled here",
    **dict.fromkeys(("backward", "cpu", "cuda", "numpy"), ": a block of a kernel is no tensor of torch"),
}
"""What to do instead of attributes that users look for and that Triton's tensors do not have."""


class tensor:
    """A block of elements of type `dtype`, or a scalar with the shape ().

    `value` is a number for all elements, an affine form or mask of known integers, `Data`, a handle of bytes in TCM, a
    product, or an `Address` of pointers. A handle may be smaller than `shape`: numpy's broadcasting repeats it.
    """

    __slots__ = ("__weakref__", "dtype", "shape", "value")

    def __init__(self, value: Any, shape: tuple[int, ...], kind: dtype) -> None:
        self.value = value
        self.shape = shape
        self.dtype = kind

    @property
    def type(self) -> dtype:
        """The type of the tensor: a block type, or the element type of a scalar."""
        return block_type(self.dtype, self.shape) if self.shape else self.dtype

    @property
    def numel(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def T(self) -> tensor:
        """The matrix transposed."""
        found: tensor = _FUNCTIONS["trans"](self)
        return found

    def __getitem__(self, key: Any) -> tensor:
        keys = key if isinstance(key, tuple) else (key,)
        found, axis = self, 0
        for each in keys:
            if each is None:
                found = _FUNCTIONS["expand_dims"](found, axis)
            elif each is Ellipsis:
                axis = found.rank - sum(one is None or isinstance(one, slice) for one in keys[keys.index(each) + 1 :])
                continue
            elif not (isinstance(each, slice) and each == slice(None)):
                refuse(f"the index {each!r} of a tensor", "None and :", "load what is needed, or use tl.gather")
            axis += 1
        return found

    def __getattr__(self, name: str) -> Any:
        function = _FUNCTIONS.get(name)
        if function is not None:
            return lambda *arguments, **named: function(self, *arguments, **named)
        hint = _HINTS.get(name, "")
        near = [] if hint else near_names(name, [*_FUNCTIONS, "dtype", "shape", "type", "T"])
        hint = f": did you mean {' or '.join(near)}?" if near else hint
        raise AttributeError(f"a tensor has no {name!r}{hint}", name=name, obj=self)

    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("sub"), _reflected("sub")
    __mul__, __rmul__ = _operator("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _operator("div"), _reflected("div")
    __floordiv__, __rfloordiv__ = _operator("tdiv"), _reflected("tdiv")
    __mod__, __rmod__ = _operator("trem"), _reflected("trem")
    __lshift__, __rlshift__ = _operator("lshift"), _reflected("lshift")
    __rshift__, __rrshift__ = _operator("rshift"), _reflected("rshift")
    __and__, __rand__ = _operator("bit_and"), _reflected("bit_and")
    __or__, __ror__ = _operator("bit_or"), _reflected("bit_or")
    __xor__, __rxor__ = _operator("bit_xor"), _reflected("bit_xor")
    __lt__, __le__ = _operator("lt"), _operator("le")
    __gt__, __ge__ = _operator("gt"), _operator("ge")

    def __eq__(self, other: object) -> Any:
        return _FUNCTIONS["binary"]("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return _FUNCTIONS["binary"]("ne", self, other)

    __hash__ = object.__hash__

    def __neg__(self) -> tensor:
        found: tensor = _FUNCTIONS["negative"](self)
        return found

    def __pos__(self) -> tensor:
        return self

    def __invert__(self) -> tensor:
        found: tensor = _FUNCTIONS["inverted"](self)
        return found

    def __abs__(self) -> tensor:
        found: tensor = _FUNCTIONS["abs"](self)
        return found

    def __pow__(self, other: Any) -> NoReturn:
        refuse("** of a tensor", "tl.math.pow, as in Triton")

    __rpow__ = __pow__

    def __bool__(self) -> bool:
        if self.dtype.family == "void" and self.numel == 1:  # a pointer is true; a missing one is None and no tensor
            return True
        answer = answer_of()
        if answer is not None:
            return bool(self.value) if type(self.value) in NUMBERS else answer(self)
        return bool(self._only_element("the truth"))

    def __int__(self) -> int:
        return int(self._only_element("int()"))

    def __float__(self) -> float:
        return float(self._only_element("float()"))

    def __index__(self) -> int:
        found = self._only_element("the use as an index")
        return found if type(found) is int else int(found)

    def __iter__(self) -> NoReturn:
        raise TypeError("a tensor cannot be unpacked or iterated over")

    def __repr__(self) -> str:
        return f"tensor({self.type})"

    def __format__(self, spec: str) -> str:
        if type(self.value) in NUMBERS:
            return format(self.value, spec)
        return repr(self)

    def _only_element(self, what: str) -> Any:
        """Returns the one element, for *what* the kernel does with it. Raises KernelError for several elements."""
        value = self.value
        if type(value) in NUMBERS and (not self.shape or self.numel == 1):
            return value
        if self.numel != 1:
            fix = "write & for and, | for or, ~ for not, and tl.where for if"
            refuse(f"{what} of a block of {' x '.join(map(str, self.shape))}", "a scalar", fix)
        return elements_of(self).item()


def elements_of(x: tensor) -> Any:
    """Returns the elements of *x* after a wait for them. Pending elements are computed now.

    Raises KernelError for pointers.
    """
    value = x.value
    kind = type(value)
    if kind in NUMBERS:
        return np.broadcast_to(np.asarray(value), x.shape)
    if kind in FORMS:
        return value.data()
    if kind is Data:
        return np.broadcast_to(value.awaited(), x.shape)
    if isinstance(value, Handle):
        own = value.shape[
            max(len(value.shape) - len(x.shape), 0) :
        ]  # a scalar may lie in TCM as a block of one element
        return np.broadcast_to(machine().elements(value).reshape(own), x.shape)
    if kind is DotResult:
        return machine().elements(value.issued())
    if kind is Turned:
        return machine().elements(value.factor.of).T
    refuse("the elements of pointers", "numbers", "cast them to tl.int64")


def describe(value: object) -> str:
    """Describes *value*, an argument of a call, in words."""
    if isinstance(value, tensor):
        sizes = " x ".join(map(str, value.shape))
        return f"a block of {sizes} {value.dtype}" if value.shape else f"a scalar of {value.dtype}"
    name = "None" if value is None else type(value).__name__
    return name if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
