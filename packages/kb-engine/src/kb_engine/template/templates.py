"""Templates: the templates of one launch, and which of its programs are traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from kb_engine.program.pe_port import PePort
from kb_engine.program.port import ProgramPort
from kb_engine.program.runner import KernelCall, Play, run_kernel
from kb_engine.program.symbols import Peers
from kb_engine.program.tensors import Tensor, TensorRef
from kb_engine.template.purity import is_repeatable, mutable_parts
from kb_engine.template.template import Template
from kb_engine.template.tracing import Tape, TracingPort

_MOST_VAIN: Final = 3
"""Traces in a row that no other program could repeat, before programs of the launch are traced no more."""


def play_of(call: KernelCall, count: int, n_pes: int) -> Play:
    """How the *count* programs of a grid on *n_pes* PEs are played: without templates where these cannot be used."""
    if count > n_pes and is_repeatable(call.kernel, call.arguments):
        return Templates(call, count).play
    return run_kernel


class Templates:
    """Plays the programs of a grid of *count*: from a template, by a trace that may become one, or just so.

    One program is traced at a time. Programs on PEs that use other copies of tensors have templates of their own.
    """

    def __init__(self, call: KernelCall, count: int) -> None:
        self._count = count
        self._is_near = any(each.near for each in _tensors(call.arguments))
        self._found: dict[tuple[str, int], tuple[Template, int]] = {}
        self._room: dict[str, tuple[int, int]] = {}
        self._is_tracing = False
        self._vain = 0

    def play(self, call: KernelCall, port: PePort) -> None:
        """Run the program of *port*."""
        copies = port.pe_id if self._is_near else ""
        found = self._found.get((copies, port.program_id))
        if found is not None:
            template, row = found
            if self._has_room(port, template.needs_nbytes):
                template.repeat(port, row)
                return
        elif not self._is_tracing and self._vain < _MOST_VAIN:
            self._trace(call, port, copies)
            return
        run_kernel(call, port)

    def _trace(self, call: KernelCall, port: PePort, copies: str) -> None:
        peers = Peers(port.program_id, self._count)
        tape = Tape(peers)
        tracing = TracingPort(port, tape)
        before = mutable_parts(call.arguments)
        self._is_tracing = True
        try:
            run_kernel(call, cast(ProgramPort, tracing))  # its addresses take the place of integers
            tracing.end()
        finally:
            self._is_tracing = False
        peers.close()
        if tape.held:
            peers.leave("holds TCM at its end")
        if mutable_parts(call.arguments) != before:
            peers.leave("changes its arguments")
        if peers.why_alone or int(peers.agree.sum()) < 2:
            self._vain += 1
            return
        self._vain = 0
        template = Template(tape, port.tcm.allocator)
        for row, number in enumerate(template.numbers.tolist()):
            self._found.setdefault((copies, number), (template, row))

    def _has_room(self, port: PePort, nbytes: int) -> bool:
        """Whether *nbytes* of TCM are surely free in one piece."""
        allocator = port.tcm.allocator
        free, largest = self._room.get(port.pe_id, (-1, 0))
        if allocator.free_nbytes != free:
            largest = allocator.largest_nbytes()
            if allocator.free_nbytes > free:
                self._room[port.pe_id] = allocator.free_nbytes, largest
        return nbytes <= largest


def _tensors(arguments: Sequence[Any]) -> list[Tensor]:
    found: list[Tensor] = []
    for each in arguments:
        if isinstance(each, TensorRef):
            found.append(each.tensor)
        elif isinstance(each, (list, tuple)):
            found += _tensors(each)
    return found
