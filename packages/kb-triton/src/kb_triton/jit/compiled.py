"""CompiledKernel: the result of a launch and of a warm-up. There is no compiled code: the facts describe a PE."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, NamedTuple

from kb_engine.program import authors_traceback
from kb_messages import KbError, KernelError
from kb_triton.host import current
from kb_triton.language.missing import MissingNameError

_OF_CODE: Final = frozenset(("function", "launch_metadata", "module", "packed_metadata", "run", "src"))
"""Attributes of Triton's compiled kernels that stand for code."""


_WHY_UNSEEN: Final = "a launch runs on the simulated chip and is no part of a graph; leave out fullgraph=True"


def unseen(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks *function*, at whose call `torch.compile` then ends a graph.

    The marks are those of `torch.compiler.disable`, and torch need not be imported for them.
    """
    vars(function).update(_torchdynamo_disable=True, _torchdynamo_disable_msg=_WHY_UNSEEN)
    return function


def launching(run: Callable[..., Any], grid: Any) -> Callable[..., Any]:
    """Returns `kernel[grid]`: a function that calls *run* with its arguments and *grid*.

    The traceback of a KbError goes from this function straight to the author's kernel, without frames of kernbench.
    """

    def launch(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True  # pytest shows the line of the test and that of the kernel
        try:
            return run(*arguments, grid=grid, **named)
        except KbError as error:
            raise error.with_traceback(authors_traceback(error)) from None

    return _untraced(launch)


def _untraced(launch: Callable[..., Any]) -> Callable[..., Any]:
    """Returns *launch* so that `torch.compile` compiles nothing that it calls, such as the author's kernel."""
    dynamo = sys.modules.get("torch._dynamo")
    return launch if dynamo is None else dynamo.disable(launch)


class KernelMetadata(NamedTuple):
    """Facts of compiled code that host code reads. `shared` is the number of bytes of TCM that a program has."""

    name: str
    shared: int
    num_warps: int = 4
    num_stages: int = 2
    num_ctas: int = 1
    tmem_size: int = 0


class NoCode(dict[str, str]):
    """The code of the kernel *name* by its kind, such as `ptx`. There is none, and a look-up says so."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def __missing__(self, kind: str) -> str:
        raise NoCodeError(f"asm of {self._name}", f"the code {kind!r}", "kernel[grid](...): nothing is compiled here")


class NoCodeError(KernelError, KeyError):
    """There is no compiled code. Code that asks for a key that may be missing takes the error as a KeyError."""

    __str__ = KernelError.__str__


class CompiledKernel:
    """The kernel *name* with the options and constants of a launch or warm-up. `kernel[grid](...)` launches it again.

    A program has a whole PE. So host code that divides the resources of a multiprocessor by the resources of a program
    computes that one program runs at once.
    """

    n_spills = 0
    n_max_threads = 1024

    def __init__(
        self, name: str, launch: Callable[..., Any], options: Mapping[str, Any], constants: Mapping[str, Any]
    ) -> None:
        """Keeps *options* and *constants*, the constexpr arguments, for later launches by *launch*.

        *launch* is called with the positional arguments, the named ones, the grid, and the kept options and constants.
        """
        self.name = name
        self.asm: dict[str, str] = NoCode(name)
        self._launch = launch
        self._options = {each: options[each] for each in ("num_warps", "num_stages", "num_ctas") if options.get(each)}
        self._kept = {**self._options, **constants}
        self.key = str(self._kept)

    @cached_property
    def metadata(self) -> KernelMetadata:
        """The facts of compiled code that host code reads."""
        return KernelMetadata(self.name, current().properties["max_shared_mem"], **self._options)

    @cached_property
    def n_regs(self) -> int:
        """The number of registers of 4 bytes for each thread, if the threads of a program share the registers of a PE.

        Raises KernelError where there are more threads than registers.
        """
        chip = current().properties
        n_warps, n_registers = self.metadata.num_warps, chip["max_num_regs"]
        n_threads = chip["warpSize"] * n_warps
        if n_registers < n_threads:
            raise KernelError(
                f"n_regs of {self.name}", f"{n_registers} registers of 4 bytes in a PE",
                f"one for each of {n_threads} threads (num_warps={n_warps})",
            )  # fmt: skip
        return int(n_registers // n_threads)

    @property
    def kernel(self) -> CompiledKernel:
        """Itself."""
        return self

    @property
    def hash(self) -> str:
        """The sha256, in hexadecimal digits, of the name, the options and the constants."""
        return sha256(f"{self.name} {self.key}".encode()).hexdigest()

    def __getattr__(self, name: str) -> Any:
        if name in _OF_CODE:
            raise MissingNameError(
                f"{name} of {self.name}", "compiled code", "kernel[grid](...): nothing is compiled here"
            )
        raise AttributeError(f"a compiled kernel has no {name!r}", name=name, obj=self)

    def _init_handles(self) -> None:
        """Does nothing: there is no code to load."""

    @unseen
    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return launching(lambda *arguments, grid, **named: self._launch(arguments, named, grid, self._kept), grid)
