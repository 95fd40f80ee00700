"""The program that runs now. Each kernel is a coroutine with a context of its own, so programs may alternate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

from kb_messages import KernelError

if TYPE_CHECKING:
    from kb_triton.language.machine import Machine

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
