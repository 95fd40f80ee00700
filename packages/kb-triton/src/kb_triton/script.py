"""Runs a user's script on a simulated chip. `kb exec` finds this module by the entry point `kb.scripts`."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from kb_engine import Host
from kb_engine.observe import Observer
from kb_messages import BenchmarkError, KbError, read_bytes
from kb_triton.host import Device, Launched, LaunchedFunction, Options, options_of, use
from kb_triton.host.options import most_configurations
from kb_triton.shims import install, shim_cuda, uninstall

_MOST_NBYTES = 16 << 20
"""The largest script. Source: assumed."""


class EnoughError(BaseException):
    """Ends a script after the launch that `repeat` asked for. No `except Exception` of the script catches it."""


def new_device(
    options: Mapping[str, Any],
    watched: Callable[[], Sequence[Observer]] = tuple,
    on_launch: Callable[[Launched], None] | None = None,
    around: Callable[[bool], AbstractContextManager[object]] = nullcontext,
) -> Device:
    """Returns the device for a script.

    *options* has the options of `kb exec` by name. An option that is left out is taken from its environment variable.
    *watched*, *on_launch* and *around* are parameters of `Device`. Raises KbError for a wrong option.
    """
    found = options_of()
    autotune = options.get("autotune")
    chosen = Options(
        topology=options.get("topology") or found.topology,
        issue=options.get("issue") or found.issue,
        transfers=bool(options.get("transfers")) or found.transfers,
        schedule=options.get("schedule") or found.schedule,
        autotune=most_configurations("--autotune", autotune) if autotune is not None else found.autotune,
        templates=options.get("templates", found.templates),
        lenient=bool(options.get("lenient")) or found.lenient,
    )
    return Device.of(chosen, watched=watched, on_launch=on_launch, around=around)


def execute(device: Device, script: Path, arguments: Sequence[str], options: Mapping[str, Any]) -> None:
    """Runs *script* as `__main__`, with its *arguments* in `sys.argv`, and its launches on *device*.

    Raises BenchmarkError for a file that cannot be read or is no Python, and the errors of the script.
    """
    source = read_bytes(script, BenchmarkError, _MOST_NBYTES)
    path = str(script.resolve())
    linecache.cache[path] = (len(source), None, source.decode("utf-8", "replace").splitlines(keepends=True), path)
    try:
        code = compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f"{script}:{error.lineno or 1}:{error.offset or 1}"
        raise BenchmarkError(where, f"a syntax error ({error.msg})", "a Python file") from None
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise BenchmarkError(str(script), str(error) or "too much code for Python", "a Python file") from None
    pretend = options.get("pretend")
    with _as_main(str(script), path, arguments), _installed(device), shim_cuda() if pretend else nullcontext():
        exec(code, vars(sys.modules["__main__"]))


def repeat(host: Host, number: int, script: Path, arguments: Sequence[str], options: Mapping[str, Any]) -> None:
    """Runs *script* again up to its launch *number*, which runs on *host*. Earlier launches run on an equal chip.

    Raises KbError for a script that has fewer launches now, and the errors of `execute`.
    """
    device = _RepeatingDevice(host, number, options)
    try:
        execute(device, script, arguments, options)
    except EnoughError:
        return
    except SystemExit:
        pass
    raise KbError(str(script), f"{device.n_launches} launches", f"more than {number}, as in the run")


class _RepeatingDevice(Device):
    """A device whose launch *number* runs on *host* and ends the script."""

    def __init__(self, host: Host, number: int, options: Mapping[str, Any]) -> None:
        autotune = most_configurations("--autotune", options.get("autotune") or "all")
        schedule = options.get("schedule") or "dynamic"
        lenient = bool(options.get("lenient")) or options_of().lenient
        super().__init__(host.engine.topology, bool(options.get("transfers")), schedule, autotune, lenient=lenient)
        self._host = host
        self._number = number

    def launch(self, function: LaunchedFunction, grid: tuple[int, ...], arguments: Mapping[str, Any]) -> None:
        """Launches on the device's own chip, or on the host and ends the script."""
        if self.n_launches < self._number or self.is_timing:
            super().launch(function, grid, arguments)
            return
        self.run_on(self._host, function, grid, arguments)
        raise EnoughError


@contextmanager
def _installed(device: Device) -> Iterator[None]:
    use(device)
    install()
    try:
        yield
    finally:
        uninstall()
        use(None)


@contextmanager
def _as_main(given: str, path: str, arguments: Sequence[str]) -> Iterator[None]:
    """Makes `__main__` an empty module of the file *path* within the block, and puts its folder first in `sys.path`."""
    main = ModuleType("__main__")
    vars(main).update(__file__=path, __builtins__=__builtins__, __cached__=None)
    with ExitStack() as stack:
        stack.callback(sys.modules.__setitem__, "__main__", sys.modules["__main__"])
        sys.modules["__main__"] = main
        stack.enter_context(patch.object(sys, "argv", [given, *arguments]))
        stack.enter_context(patch.object(sys, "path", [str(Path(path).parent), *sys.path]))
        yield
