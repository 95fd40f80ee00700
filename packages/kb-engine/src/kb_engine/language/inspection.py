"""Inspection of values: `tl.print` and `tl.capture`. They take no simulated time, and do not change the op log.

Design: docs/design/kernel-language.md.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, cast

import numpy.typing as npt

from kb_engine.language.accumulators import AccumulatorTensor
from kb_engine.language.math import MathOps
from kb_engine.language.vector.recorded import RecordedTensor
from kb_engine.observe.capture import Capture, Recipe, shown_array
from kb_engine.program.author.arguments import describe, in_tcm
from kb_engine.program.values.handles import Handle
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.tensors import TensorRef
from kb_engine.program.values.transposed import refuse
from kb_messages import KernelError, Matrix


class _Inspected(NamedTuple):
    """An inspected value: its elements, or their place, and the text that stands for pending elements."""

    shape: tuple[int, ...]
    known: npt.NDArray[Any] | None
    place: Matrix | None
    text: str
    recipe: Recipe | None = None


class InspectionOps(MathOps):
    """Calls that show values and change nothing."""

    def print(self, label: str, *values: object) -> None:
        """Prints a line with *label*, the kernel line and the PE for each of *values*, or one line without values.

        Numbers, texts and known elements are printed at once. A pending value, or a slice of a tensor in memory, is
        printed after pass 2, with the elements that it had when all commands before this call had taken effect. Raises
        KernelError for a handle that was freed.
        """
        line = self._port.line()
        self.leave("prints")
        for value in values or ("",):
            text = str(value)
            if isinstance(value, (Handle, HostValue, TensorRef)):
                looked = self._inspected(value, "print", line)
                if looked.known is None and self._notify(str(label), line, looked, is_print=True):
                    continue
                text = shown_array(looked.known) if looked.known is not None else f"pending {looked.text}"
            sys.stdout.write(f"{line} {self._port.pe_id}: {label} {text}".rstrip() + "\n")

    def capture(self, name: str, x: Handle | HostValue | TensorRef) -> None:
        """Keeps the value of *x* under *name*, for `kb show` and `KernelRun.captures`.

        The value holds the elements of *x* after all commands before this call, also when its TCM is used again later.
        A name may be captured many times, by many programs. Raises KernelError for a name that is no text, for anything
        but a handle, integers of `tl.arange` and a slice of a tensor, and for a handle that was freed.
        """
        line, given = self._port.line(), cast("object", name)
        self.leave("captures")
        if not isinstance(given, str) or not name.isprintable() or not 0 < len(name) <= 100:
            raise KernelError(line, f"tl.capture under {name!r:.100}", "a name of 1 to 100 characters that print")
        self._notify(name, line, self._inspected(x, "capture", line), is_print=False)

    def _notify(self, name: str, line: str, looked: _Inspected, is_print: bool) -> bool:
        """Notifies the observers. Returns whether there is one."""
        port = self._port
        if port.on_capture is None:
            return False
        port.on_capture(
            Capture(
                name=name,
                line=line,
                pe_id=port.pe_id,
                program=port.program_id,
                shape=looked.shape,
                known=looked.known,
                place=looked.place,
                command_seq=port.commands_issued,
                is_print=is_print,
                recipe=looked.recipe,
            )
        )
        return True

    def _inspected(self, x: object, call: str, line: str) -> _Inspected:
        refuse(x, f"tl.{call} of", line, "look at it as it is stored")
        if isinstance(x, HostValue):
            return _Inspected(x.shape, x.data, None, str(x))
        if isinstance(x, TensorRef):
            place = self._memory_of(x, line)
            return _Inspected(x.shape, None, place, f"{x} of {place.dtype}")
        if not isinstance(x, Handle):
            needs = "a value of the kernel: a handle, integers of tl.arange, or a slice of a tensor"
            raise KernelError(line, f"tl.{call} of {describe(x)}", needs)
        if x.freed:
            in_tcm(x, line)
        if x.is_pending and x.operators is not self:
            self._check_owner(x, line)
        if isinstance(x, RecordedTensor) and not x.is_issued:
            recipe = None if x.known is not None else self._programs.recipe(x.op)
            return _Inspected(x.shape, x.known, None, repr(x), recipe)
        place = x.settled_place() if isinstance(x, AccumulatorTensor) else x.place
        return _Inspected(x.shape, x.known, place, repr(x))
