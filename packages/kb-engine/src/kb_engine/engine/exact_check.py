"""ExactCheck: runs each launch a second time, event by event on another engine, and compares the two.

Design: docs/design/fast-forward.md

The other engine has a clock, blocks, memories and a log of its own, and skips nothing. So a wing that loses rows, times
or counts cannot be compared with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, Final

from kb_dataexec import LogWriter, MemoryLogWriter, OpLog
from kb_dataexec.log import LogSummary
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.engine.block_states import state_of_block
from kb_engine.fabric.fabric import Fabric
from kb_engine.launch.launch import LaunchResult
from kb_engine.launch.streams import StreamCall
from kb_messages import KbError, Matrix, MmuMessage, SimulationStuckError

_FIX: Final = "run with --exact events, and report the kernel"


class ExactCheck:
    """Compares the Engine *engine*, which skips work, with the Engine *other*, which simulates every event.

    Each call that lets time pass on the chip is made on both. A kernel runs twice, and what it prints the second time
    is dropped; a kernel that does something else when it runs again makes the two differ. `n_launches` counts the
    launches that were compared.
    """

    def __init__(self, engine: Any, other: Any) -> None:
        self._engine = engine
        self._other = other
        self._twins: list[tuple[StreamCall, StreamCall]] = []
        self._twin_of: dict[int, StreamCall] = {}
        self.n_launches = 0

    def before_launch(self) -> None:
        """Copies the bytes and the TCM allocations of this engine to the other one, because the host may have changed
        both."""
        self._other.memory.copy_from(self._engine.memory)
        for pe_id, pe in self._engine.pes.items():
            self._other.pes[pe_id].copy_tcm_from(pe)

    def launched(self, result: LaunchResult, *call: Any) -> None:
        """Makes the launch again, with the arguments *call* of `Engine.launch`. *result* is the result of the first
        engine.

        Raises KbError where the result of the second launch differs.
        """
        with redirect_stdout(StringIO()):
            try:
                again = self._other.launch(*call)
            except KbError as error:
                raise self._differs(f"launch {self.n_launches}", "no error", f"the error {error}") from error
        where = f"launch {self.n_launches}"
        self._compare_results(where, result, again)
        self._compare_chips(where)
        self.n_launches += 1

    def added(self, call: StreamCall, add: Callable[[Any], StreamCall]) -> None:
        """Makes *call* of a stream again: *add* does it on the engine that it gets."""
        twin = self._twin_of[call.number] = add(self._other)
        self._twins.append((call, twin))

    def streams_ran(self, call: StreamCall | None, is_idle: bool) -> None:
        """Has the calls of streams made again up to the end of *call*, or of all calls. *is_idle* says that all have
        ended.

        Raises KbError where times differ, and where all calls have ended and something else differs.
        """
        twin = None if call is None else self._twin_of[call.number]
        with redirect_stdout(StringIO()):
            try:
                self._other.wait_for(twin)
            except KbError as error:
                raise self._differs("calls of streams", "no error", f"the error {error}") from error
        for one, other in self._twins:
            where = f"call {one.number} of stream {one.stream}"
            self._compare(f"{where}: times", *(_call_times(each) for each in (one, other)))
            if isinstance(one.result, LaunchResult) and isinstance(other.result, LaunchResult):
                self._compare_results(where, one.result, other.result)
        if is_idle:
            self._compare_chips("calls of streams")
            self.n_launches += sum(one.launch >= 0 for one, _ in self._twins)
            self._twins.clear()

    def streams_failed(self, error: KbError) -> None:
        """Has the calls of streams made again, which ended in *error* on the first engine.

        Raises KbError where they do not end in the same error.
        """
        with redirect_stdout(StringIO()):
            try:
                self._other.wait_for()
            except KbError as again:
                if type(error) is type(again) and (isinstance(error, SimulationStuckError) or str(error) == str(again)):
                    return
                raise self._differs("calls of streams", f"the error {error}", f"the error {again}") from error
        raise self._differs("calls of streams", f"the error {error}", "no error") from error

    def _compare_results(self, where: str, result: LaunchResult, again: LaunchResult) -> None:
        for name in result.__struct_fields__:
            self._compare(f"{where}: {name}", getattr(result, name), getattr(again, name))

    def _compare_chips(self, where: str) -> None:
        """Raises KbError where the two chips differ, after the same calls."""
        mine, others = self._engine.session, self._other.session
        self._compare(f"{where}: commands and ops", _numbers(mine), _numbers(others))
        for node_id, block in self._engine.components.items():
            other = self._other.components[node_id]
            self._compare(f"{where}: counts of {node_id}", _counts(block), _counts(other))
            self._compare(f"{where}: state of {node_id}", state_of_block(block), state_of_block(other))
        self._compare(f"{where}: traffic", _traffic(self._engine.fabric), _traffic(self._other.fabric))
        known = mine.memory.store.differs_from(others.memory.store)
        if known:
            raise self._differs(f"{where}: {known}", "other bytes", "those of every event")
        self._compare(f"{where}: pending bytes", mine.memory.pending.places(), others.memory.pending.places())

    def failed(self, error: KbError, *call: Any) -> None:
        """Makes a launch again that ended in *error* on the first engine, with the arguments *call* of `Engine.launch`.

        Raises KbError where the second launch does not end in the same error. The events that a stuck launch took do
        not count, because the first engine takes fewer.
        """
        where = f"launch {self.n_launches}"
        with redirect_stdout(StringIO()):
            try:
                self._other.launch(*call)
            except KbError as again:
                is_equal = isinstance(error, SimulationStuckError) or str(error) == str(again)
                if type(error) is type(again) and is_equal:
                    return
                raise self._differs(where, f"the error {error}", f"the error {again}") from error
        raise self._differs(where, f"the error {error}", "no error") from error

    def moved(self, times_ps: Sequence[tuple[int, int]], matrices: Sequence[Matrix], write: bool) -> None:
        """Makes a transfer of the host again, which took *times_ps* on the first engine."""
        self._compare("transfer of the host", times_ps, self._other.move(matrices, write))

    def warmed(self, matrices: Sequence[Matrix], written: bool) -> None:
        """Brings *matrices* into the caches of the other engine, too."""
        self._other.warm(matrices, written)

    def sent(self, messages: Sequence[MmuMessage]) -> None:
        """Sends *messages* to the MMUs of the other engine, too."""
        self._other.send(messages)

    def host_wrote(self, matrix: Matrix, data: bytes, times_ps: tuple[int, int]) -> None:
        """Records a write of the host in the log of the other engine, too."""
        self._other.log_host_write(matrix, data, times_ps)

    def rebased(self, writer: LogWriter | None) -> None:
        """Begins anew on the other engine, too, with a log of its own if there is a *writer*."""
        store = self._engine.memory.store.snapshot()
        self._twin_of.clear()
        self._other.rebase(store, None if writer is None else MemoryLogWriter())

    def closed(self, log: OpLog | LogSummary | None) -> None:
        """Closes the log of the other engine, and compares it with *log*. Raises KbError where rows differ."""
        other = self._other.close_log()
        if log is not None and other is not None:
            self._compare("op log: number of rows", log.n_ops, other.n_ops)
            self._compare("op log: digest of all rows", log.digest, other.digest)

    def _compare(self, where: str, got: Any, needs: Any) -> None:
        """Raises KbError where *got* is not *needs*. The error names the first item that differs."""
        if got == needs:
            return
        if isinstance(got, dict) and isinstance(needs, dict) and got.keys() == needs.keys():
            for name, item in got.items():
                self._compare(f"{where} of {name}", item, needs[name])
        elif isinstance(got, (list, tuple)) and isinstance(needs, (list, tuple)) and len(got) == len(needs):
            for number, items in enumerate(zip(got, needs, strict=True)):
                self._compare(f"{where}[{number}]", *items)
        raise self._differs(where, str(got), str(needs))

    def _differs(self, where: str, got: str, needs: str) -> KbError:
        self._engine.clock.mark_broken()
        return KbError(where, f"{got} where parts were skipped", f"{needs}, the result of every event", _FIX)


def _call_times(call: StreamCall) -> tuple[int, ...]:
    return call.called_ps, call.made_ps, call.start_ps, call.end_ps


def _numbers(session: Any) -> tuple[int, int]:
    return session.commands_issued, session.n_ops


def _counts(block: Any) -> tuple[object, ...]:
    """What *block* and its queues count; a memory also counts its bytes."""
    served = [(each.busy_ps, each.served) for each in block.servers.values()]
    moved = (block.busy_ps, block.parts, block.unwritten_nbytes) if isinstance(block, MemoryComponent) else ()
    return block.counts(), served, moved


def _traffic(fabric: Fabric) -> dict[str, tuple[int, int]]:
    """The picoseconds for which each link was busy, and the bytes that passed it."""
    return {f"{each.link.src} -> {each.link.dst}": (each.busy_ps, each.nbytes) for each in fabric.links}
