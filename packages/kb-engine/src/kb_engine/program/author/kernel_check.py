"""Checks that a kernel is a plain function that takes the arguments of its launch, and returns no coroutine."""

from __future__ import annotations

import inspect
from pathlib import Path

from kb_engine.program.author.arguments import describe
from kb_engine.program.author.author_errors import calling_line
from kb_engine.program.author.cells import file_name
from kb_engine.program.author.kernel_lines import at_line
from kb_messages import KernelError

_FIX = "write it as a plain function: the calls of `tl` wait by themselves"


def check_kernel(kernel: object, n_arguments: int, root: Path) -> None:
    """Raises KernelError unless *kernel* is a plain function that can be called with `tl` and *n_arguments* more.

    The error names the line of the launch, relative to *root*.
    """
    try:
        _check(kernel, n_arguments)
    except KernelError as error:
        if line := calling_line(root):
            raise at_line(error, line) from None
        raise


def _check(kernel: object, n_arguments: int) -> None:
    if isinstance(kernel, type) or not callable(kernel):
        got = f"the class {kernel.__name__}" if isinstance(kernel, type) else describe(kernel)
        raise KernelError("launch", f"{got} as a kernel", "a function")
    if inspect.iscoroutinefunction(kernel) or inspect.isasyncgenfunction(kernel):
        raise KernelError(
            "launch", f"the async function {name_of(kernel)}", "a kernel that runs when it is called", _FIX
        )
    if inspect.isgeneratorfunction(kernel):
        raise KernelError("launch", f"the generator {name_of(kernel)}", "a kernel that runs when it is called", _FIX)
    try:
        signature = inspect.signature(kernel)
    except Exception:  # noqa: BLE001 - a function in C has no signature, and an author's may raise anything
        return
    try:
        signature.bind(*[None] * (n_arguments + 1))
    except TypeError as error:
        needs = f"the arguments of {name_of(kernel)}{signature.replace(return_annotation=signature.empty)}"
        raise KernelError("launch", f"`tl` and {n_arguments} arguments ({error})", needs) from None


def check_returned(kernel: object, returned: object) -> None:
    """Raises KernelError when *kernel* has *returned* a coroutine or a generator, which has not run, or a value.

    Nobody receives a value that a kernel returns. A lambda returns the value of its one call, which may be the result
    of a load or another command; only math that no command computes is then lost.
    """
    if returned is None:
        return
    if inspect.iscoroutine(returned) or inspect.isgenerator(returned):
        returned.close()  # so that Python does not warn that nobody awaited it
        raise KernelError(f"kernel {name_of(kernel)}", describe(returned), "a kernel that runs when it is called", _FIX)
    if getattr(kernel, "__name__", "") == "<lambda>" and getattr(returned, "is_issued", True):
        return
    got, fix = f"{describe(returned)} returned by the kernel", "tl.store it to a tensor argument"
    raise KernelError(f"kernel {name_of(kernel)}", got, "a kernel that returns nothing", fix)


def name_of(kernel: object) -> str:
    """The name of *kernel*, and the file and line of its definition, if it has one."""
    code = getattr(kernel, "__code__", None)
    place = f" ({file_name(code.co_filename)}:{code.co_firstlineno})" if inspect.iscode(code) else ""
    return f"{getattr(kernel, '__name__', type(kernel).__name__)}{place}"
