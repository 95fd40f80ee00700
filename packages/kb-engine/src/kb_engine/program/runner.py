"""KernelRunner: runs one program on one PE, until its kernel has returned and all its commands are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kb_engine.block.state_visitor import StateVisitor
from kb_engine.program.author.author_errors import authors_line, explain, is_authors_error
from kb_engine.program.author.kernel_check import check_returned, name_of
from kb_engine.program.author.kernel_lines import KernelLines
from kb_engine.program.author.watchdog import KernelNeverYields
from kb_engine.program.command_stream import CommandStream
from kb_engine.program.commands import ProgramCommands
from kb_engine.program.coroutine import KernelCoroutine
from kb_engine.program.grid import Program
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.pe_port import PePort
from kb_engine.program.port import FrontEnd, ProgramPort
from kb_engine.program.session import Session
from kb_engine.sync.exchange import Endpoint, Exchange

Kernel = Callable[..., None]


class KernelCall(NamedTuple):
    """A kernel, its arguments after the first, the folder to which its lines are relative, its language, its lines."""

    kernel: Kernel
    arguments: Sequence[Any]
    root: Path
    front_end: FrontEnd
    lines: KernelLines


def run_kernel(call: KernelCall, port: ProgramPort) -> None:
    """Runs the kernel of *call* as the program of *port*."""
    check_returned(call.kernel, call.kernel(call.front_end(port), *call.arguments))


Play = Callable[[KernelCall, PePort], None]
"""Makes the calls of a program's kernel: it runs the kernel, or replays a template."""


def _endpoint(pe: ProcessingElement, program: Program, stream: CommandStream) -> Endpoint:
    """The endpoint of *program* on *pe*. It refers to nothing that the launch was given."""
    return Endpoint(pe.pe_id, program.on(pe.pe_id), pe.queue, pe.tcm, stream.when_unused)


class KernelRunner:
    """Runs *program* of a launch on *pe*. Its commands are part of *stream*, and *exchange* leads to
    the other programs of the launch.

    *done(runner)* is called at `end_ps`, when the kernel has returned and all its commands are done; from then on
    `has_ended` is true. *returned(runner)* is called before, when the kernel has returned. `stopped_at` is the line at
    which a signal, `sys.exit` or the watchdog ended the kernel, or "". `name` is the name of the program in errors and
    reports.
    """

    def __init__(
        self,
        session: Session,
        pe: ProcessingElement,
        call: KernelCall,
        program: Program,
        exchange: Exchange,
        stream: CommandStream,
        done: Callable[[KernelRunner], None],
        returned: Callable[[KernelRunner], None] | None = None,
        play: Play = run_kernel,
    ) -> None:
        self.pe = pe
        self.program = program
        self.kernel = KernelCoroutine(session.clock, self._run, self._kernel_returned)
        self.commands = ProgramCommands(session, pe, self.kernel, stream, self._finish_if_idle)
        self.end_ps = 0
        self.has_begun = self.has_ended = False
        self.stopped_at = ""
        self.exchange = exchange
        self._port = PePort(session, pe, self.kernel, self.commands, program, exchange, call.lines)
        self._call = call
        self._play = play
        self._clock = session.clock
        self._stream = stream
        self._done = done
        self._returned = returned

    @property
    def name(self) -> str:
        """The PE, with the number of the program where the launch has a grid."""
        return self.program.on(self.pe.pe_id)

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state to *over*."""
        over.same(self.pe.pe_id, self.has_begun, self.has_ended)
        if self.program.grid is not None:
            self.program = self.program._replace(number=over.program(self.program.number))
        over.part(self.kernel)
        over.part(self.commands)
        over.part(self._port)

    def start(self, _: object = None) -> None:
        """Starts the kernel. Its stream reads the PE's completion queue from now on."""
        self.has_begun = True
        self.exchange.place(self.program.number, partial(_endpoint, self.pe, self.program, self._stream))
        self._stream.listen()
        self.kernel.resume()

    def abandon(self) -> bool:
        """Ends the kernel where it waits, because the launch has failed. Code of the kernel that still runs changes
        nothing.

        Returns False for a kernel that catches its end and goes on.
        """
        if not self.kernel.waiting_at:
            return True
        self._port.end()
        return self.kernel.abandon()

    def _run(self) -> None:
        call = self._call
        try:
            self._play(call, self._port)
            self.commands.end()
        except BaseException as error:
            if self.kernel.is_abandoned:
                raise
            # A signal, `sys.exit` and a mistake of kernbench pass through: the kernel is not to blame. The engine says
            # which kernel the watchdog has stopped.
            passes = isinstance(error, (KeyboardInterrupt, SystemExit, KernelNeverYields))
            if passes or not is_authors_error(error, call.root):
                self.stopped_at = authors_line(error, call.root)
                raise
            self._port.tcm.end()
            program = self.name if self.program.grid is not None else ""
            name = f"kernel {name_of(call.kernel)}"
            raise explain(error, call.root, "a kernel that returns", program, call.front_end, name) from None
        finally:
            self._port.forget_kernel()

    def _kernel_returned(self) -> None:
        if self._returned is not None:
            if self.pe.cpu.issues_ahead:  # the next command that takes the bytes waits for their last user
                self._port.tcm.end()
            self._returned(self)
        self._finish_if_idle()

    def _finish_if_idle(self) -> None:
        if self.kernel.has_returned and not self.commands.in_flight:
            self.end_ps = self._clock.now_ps
            self.has_ended = True
            self._port.end_messages()
            self.exchange.end(self.program.number)
            self.commands.forget_program()
            if self._returned is None or not self.pe.cpu.issues_ahead:
                self._port.tcm.end()
            self._done(self)
