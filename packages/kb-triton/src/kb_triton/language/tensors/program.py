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
    """The bytes of a host tensor on the chip. The ranges from `address` on of different storages do not overlap."""

    @property
    def name(self) -> str:
        """The name of the tensor in errors."""

    @property
    def address(self) -> int:
        """The address of the first byte."""

    @property
    def nbytes(self) -> int:
        """The number of bytes."""

    def view(self, dtype: DType) -> Tensor:
        """Returns the bytes as a tensor of the chip, of one dimension, with elements of *dtype*."""


FindStorage: TypeAlias = Callable[[int], ChipStorage | None]


def _nothing(address: int) -> None:
    """Finds no storage at any *address*."""


class Machine(Language):
    """The machine of one program: the chip's own kernel language, with calls that names of Triton need beside it.

    The caller of a function chooses the type of its result. *storage_at* returns the storage with the byte at an
    address, or None where no storage that the kernel may reach has it.
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
        """A function that returns the line of the kernel."""
        return self._port.line

    def in_order(self, handle: Handle, order: tuple[int, ...]) -> Handle:
        """Returns the bytes of *handle* with its axes in another *order*."""
        return handle.reordered(order)

    def rearranged(
        self, handles: Sequence[Handle], shape: tuple[int, ...], strides: tuple[int, ...], first: int = 0
    ) -> Handle:
        """Returns a block of *shape* from the elements of *handles*, which are counted one behind the other.

        *first* is the number of the first element, and *strides* are the steps between numbers along each axis.
        """
        return self._ordered("combine" if len(handles) > 1 else "rearrange", handles, shape, strides, shape, first)

    def view(self, handle: Handle, before: tuple[int, ...], shape: tuple[int, ...]) -> Handle:
        """Returns *handle*, which stands for a block of shape *before*, in another *shape* of as many elements."""
        if prod(handle.shape) == 1:
            return handle.reshape((1,) * len(shape))
        if prod(handle.shape) != prod(before):
            handle = self.spread(handle, before, before)
        return handle if handle.shape == shape else handle.reshape(shape)

    def with_axis(self, handle: Handle, rank: int, at: int) -> Handle:
        """Returns *handle*, which stands for a block of *rank* axes, with a new axis of length 1 at number *at*."""
        sizes = (1,) * (rank - len(handle.shape)) + handle.shape
        return handle.reshape((*sizes[:at], 1, *sizes[at:]))

    def spread(self, handle: Handle, before: tuple[int, ...], shape: tuple[int, ...]) -> Handle:
        """Returns *handle*, which stands for a block of shape *before*, repeated over all of *shape*."""
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
        """Returns the result, of type *dtype*, of the math function *op* of values in TCM and numbers."""
        return self._call(op, arguments, axis, dtype, reverse)

    def array(self, data: npt.NDArray[Any], dtype: DType) -> Handle:
        """Returns *data*, of numpy's type for *dtype*, in TCM, as constants of the op log."""
        return self.constants(np.array(data), dtype, self._port.line())

    def elements(self, handle: Handle) -> npt.NDArray[Any]:
        """Returns the elements of *handle* to the kernel, after a wait for the commands that load or compute them."""
        if handle.is_pending:
            self.materialize(handle)
        return handle.look("a look")

    def wait_for_each(self, completions: Sequence[Completion]) -> None:
        """Waits until the commands of *completions* are done."""
        for each in completions:
            if not each.done:
                self.wait_until_done(each)


_RUNNING: ContextVar[Machine] = ContextVar("kb_triton_program")
_ANSWER: ContextVar[Callable[[Any], bool] | None] = ContextVar("kb_triton_answer", default=None)


@contextmanager
def running_on(machine: Machine) -> Iterator[None]:
    """Makes the coroutine that enters the block a program on *machine*."""
    token = _RUNNING.set(machine)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def machine() -> Machine:
    """Returns the machine of the running program. Raises KernelError outside of a kernel."""
    try:
        return _RUNNING.get()
    except LookupError:
        raise KernelError("triton.language", "a call outside of a kernel", "one in a @triton.jit function") from None


@contextmanager
def answering(answer: Callable[[Any], bool]) -> Iterator[None]:
    """Makes *answer* give the truth of tensors within the block. The truth of a number stays its own."""
    token = _ANSWER.set(answer)
    try:
        yield
    finally:
        _ANSWER.reset(token)


def answer_of() -> Callable[[Any], bool] | None:
    """Returns the function of an open block of `answering`; None where the truth of a tensor is its own."""
    return _ANSWER.get()


def is_running() -> bool:
    """Whether a program is running."""
    return _RUNNING.get(None) is not None


def line() -> str:
    """Returns the line of the kernel at which the running program stands."""
    return machine().line


def refuse(got: str, needs: str, fix: str = "") -> NoReturn:
    """Raises KernelError at the line of the running program."""
    where = line() if is_running() else "triton.language"
    raise KernelError(where, got, needs, fix)
