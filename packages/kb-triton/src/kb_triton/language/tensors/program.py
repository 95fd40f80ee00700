"""The running program: its machine, the line of its kernel, and errors at that line.

Each kernel is a coroutine with a context of its own, so programs may alternate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kb_engine.language import Language
from kb_engine.program import Completion, Handle, ProgramPort, Tensor
from kb_messages import DType, KernelError


class ChipStorage(Protocol):
    """The bytes of a host tensor, as they lie on the chip. `address` is unique among the bytes of all storages."""

    @property
    def name(self) -> str:
        """What errors call it."""

    @property
    def address(self) -> int:
        """The address of the first byte."""

    @property
    def nbytes(self) -> int:
        """The number of bytes."""

    def view(self, dtype: DType) -> Tensor:
        """The chip's tensor of one dimension that has the bytes as elements of *dtype*."""


FindStorage: TypeAlias = Callable[[int], ChipStorage | None]


def _nothing(address: int) -> None:
    """Finds no storage at any *address*."""


class Machine(Language):
    """What a Triton kernel runs on. Values in TCM are those of `Language`; their types are chosen by the caller.

    *storage_at* finds the storage that has the byte at an address, of all that the kernel may have addresses of.
    """

    def __init__(self, port: ProgramPort, storage_at: FindStorage = _nothing) -> None:
        super().__init__(port)
        self.storage_at = storage_at

    @property
    def line(self) -> str:
        """The line of the kernel at which the program stands."""
        return self._port.line()

    @property
    def port_line(self) -> Callable[[], str]:
        """Gives the line of the kernel."""
        return self._port.line

    def in_order(self, handle: Handle, order: tuple[int, ...]) -> Handle:
        """*handle* with its axes in another *order*, as it would be stored."""
        return handle.reordered(order)

    def rearranged(
        self, handles: Sequence[Handle], shape: tuple[int, ...], strides: tuple[int, ...], first: int = 0
    ) -> Handle:
        """The elements of *handles*, one behind the other, that *strides* from number *first* on choose for *shape*."""
        return self._ordered("combine" if len(handles) > 1 else "rearrange", handles, shape, strides, shape, first)

    def view(self, handle: Handle, before: tuple[int, ...], shape: tuple[int, ...]) -> Handle:
        """*handle*, which stands for a block of shape *before*, in another *shape* of as many elements."""
        if prod(handle.shape) == 1:
            return handle.reshape((1,) * len(shape))
        if prod(handle.shape) != prod(before):
            handle = self.spread(handle, before, before)
        return handle if handle.shape == shape else handle.reshape(shape)

    def with_axis(self, handle: Handle, rank: int, at: int) -> Handle:
        """*handle*, which stands for a block of *rank* axes, with an axis of length 1 more as number *at*."""
        sizes = (1,) * (rank - len(handle.shape)) + handle.shape
        return handle.reshape((*sizes[:at], 1, *sizes[at:]))

    def spread(self, handle: Handle, before: tuple[int, ...], shape: tuple[int, ...]) -> Handle:
        """*handle*, which stands for a block of shape *before*, repeated over all of *shape*."""
        if handle.shape == shape:
            return handle
        if prod(handle.shape) == prod(shape):
            return handle.reshape(shape)
        dtype = handle.dtype
        if dtype is DType.BOOL:
            return self.math("or", [self.full(shape, 0, dtype), handle], dtype)
        return self.math("mul", [self.full(shape, 1, dtype), handle], dtype)

    def math(
        self,
        op: str,
        arguments: Sequence[Any],
        dtype: DType | None = None,
        axis: int | None = None,
        reverse: bool = False,
    ) -> Handle:
        """The result, of type *dtype*, of the math function *op* of values in TCM and numbers."""
        return self._call(op, arguments, axis, dtype, reverse)

    def array(self, data: npt.NDArray[Any], dtype: DType) -> Handle:
        """*data*, of numpy's type for *dtype*, in TCM, as constants of the op log."""
        return self.constants(np.array(data), dtype, self._port.line())

    def elements(self, handle: Handle) -> npt.NDArray[Any]:
        """The elements of *handle* for the kernel to look at, after a wait for the commands that bring or make them."""
        if handle.is_pending:
            self.materialize(handle)
        return handle.look("a look")

    def wait_for_each(self, completions: Sequence[Completion]) -> None:
        """Return when the commands of *completions* are done."""
        for each in completions:
            if not each.done:
                self.wait_for(each)


_RUNNING: ContextVar[Machine] = ContextVar("kb_triton_program")
_ANSWER: ContextVar[Callable[[Any], bool] | None] = ContextVar("kb_triton_answer", default=None)


@contextmanager
def running_on(machine: Machine) -> Iterator[None]:
    """In the block, the coroutine that enters it is a program on *machine*."""
    token = _RUNNING.set(machine)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def machine() -> Machine:
    """The machine of the program that runs now. Raises KernelError outside of a kernel."""
    try:
        return _RUNNING.get()
    except LookupError:
        raise KernelError("triton.language", "a call outside of a kernel", "one in a @triton.jit function") from None


@contextmanager
def answering(answer: Callable[[Any], bool]) -> Iterator[None]:
    """In the block, *answer* gives the truth of tensors that are no numbers."""
    token = _ANSWER.set(answer)
    try:
        yield
    finally:
        _ANSWER.reset(token)


def answer_of() -> Callable[[Any], bool] | None:
    """What gives the truth of tensors; None where a tensor gives its own."""
    return _ANSWER.get()


def is_running() -> bool:
    """Whether a program runs now."""
    return _RUNNING.get(None) is not None


def line() -> str:
    """The line of the kernel at which the running program stands."""
    return machine().line


def refuse(got: str, needs: str, fix: str = "") -> NoReturn:
    """Raise KernelError at the line of the running program."""
    where = line() if is_running() else "triton.language"
    raise KernelError(where, got, needs, fix)
