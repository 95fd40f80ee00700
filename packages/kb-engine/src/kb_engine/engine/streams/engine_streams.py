"""EngineStreams: the streams of a chip. It makes the launches and the host's transfers of streams, and runs them.

Design: docs/design/launch-and-host.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn

import numpy.typing as npt
from msgspec.structs import replace

from kb_engine.engine.build import Built
from kb_engine.engine.guards.limits import Limits
from kb_engine.engine.simulated_work import WorkCounter
from kb_engine.engine.strategies import FastForward, LaunchRequest, MadeLaunch, Strategy, made_launch
from kb_engine.engine.streams.stuck_streams import stuck_streams_error, waits_for_pes
from kb_engine.engine.stuck import never_yields_error
from kb_engine.launch.host_calls import SentCall
from kb_engine.launch.host_transfers import HostTransfers
from kb_engine.launch.launch import Launch, LaunchResult
from kb_engine.launch.streams import HostEvent, StreamCall, Streams
from kb_engine.observe.recorder import HostMove
from kb_engine.program.author.watchdog import KernelNeverYields, watching
from kb_engine.timing.units import ns_text
from kb_messages import (
    CubeTarget,
    HostCallKind,
    KernelError,
    KernelLaunch,
    LaunchResponse,
    LaunchSent,
    Matrix,
    SyncReason,
    split_address,
)

NO_STREAM: Final = -1
"""The number of the stream of copies without a stream, before and after which everything waits."""


class Piece(NamedTuple):
    """A part of a transfer of the host: the bytes of `src` go to `dst`. None stands for the host, which has `data`."""

    src: Matrix | None
    dst: Matrix | None
    data: npt.NDArray[Any] | None = None

    @property
    def in_memory(self) -> Matrix:
        """The matrix on the chip; of a copy, the target."""
        found = self.src if self.dst is None else self.dst
        assert found is not None, "a piece has a matrix"
        return found


class StreamPlace(NamedTuple):
    """The stream of a call, by number, and the host's line of the call."""

    stream: int
    line: str


class _Launching:
    """A launch of a stream: its request, its call and its targets, and what is known of it later."""

    def __init__(self, request: LaunchRequest, targets: Sequence[CubeTarget], got: Callable[[LaunchResult], None]):
        self.request = request
        self.targets = targets
        self.got = got
        self.call: StreamCall
        self.made: MadeLaunch | None = None


class EngineStreams:
    """Runs the calls of streams on the chip *built*. *strategies* and *wing* skip work, and *work* counts it.

    *stuck* raises the error of kernels that are stuck (`LaunchToEnd.raise_stuck`). `n_restarts` counts the calls of
    `restart`.
    """

    def __init__(
        self,
        built: Built,
        wing: FastForward | None,
        work: WorkCounter,
        limits: Limits,
        stuck: Callable[[str, str, Sequence[str]], NoReturn],
    ) -> None:
        self._clock = built.chip.clock
        self._session = built.session
        self._host = built.host_calls
        self._launches = built.launches
        self._turns = built.turns
        self._wing = wing
        self._strategies: Sequence[Strategy] = () if wing is None else wing.strategies
        self._work = work
        self._limits = limits
        self._raise_stuck = stuck
        self.n_restarts = self._n_running = 0
        self._open: dict[int, _Launching] = {}
        self._events: dict[int, HostEvent] = {}
        overhead_ps = (lambda: 0) if built.host_calls is None else built.host_calls.port.overhead_ps
        self._streams = Streams(self._clock, self._session.under_way, overhead_ps, self._run, self._ended, self._stuck)
        built.turns.on_waited = self._waited_for_pe
        built.directory.on_dispatch = self._dispatched

    def restart(self) -> None:
        """Numbers streams, events and calls from 0 again. All calls have ended."""
        self.n_restarts += 1
        self._streams.restart()
        self._events.clear()

    def new_stream(self) -> int:
        """Returns the number of a new stream."""
        return self._streams.new_stream()

    def new_event(self, line: str) -> HostEvent:
        """Returns a new event, which *line* makes."""
        return self._streams.new_event(line)

    def twin_of(self, event: HostEvent) -> HostEvent:
        """The event of this chip with the number of *event*, which belongs to an equal chip."""
        return self._events.setdefault(event.number, HostEvent(event.number, event.line))

    def order(self, place: StreamPlace, kind: HostCallKind, event: HostEvent) -> StreamCall:
        """Has a stream record *event*, or wait for it. Raises KernelError for an event that is recorded already."""
        return self._add(StreamCall(place.stream, kind, place.line, event=event))

    def launch(
        self,
        place: StreamPlace,
        request: LaunchRequest,
        targets: Sequence[CubeTarget],
        got: Callable[[LaunchResult], None],
    ) -> StreamCall:
        """Launches the kernel of *request* in a stream. *got* is called with the times when the launch is answered."""
        launching = _Launching(request, targets, got)
        self._session.memory.keep_initial()
        receiver, depth = None, 1
        if self._host is not None:
            io_cpu: Any = self._host.first_io_cpu(self._message(launching, place.stream))
            receiver, depth = io_cpu, io_cpu.stream_depth
        call = launching.call = StreamCall(
            place.stream,
            HostCallKind.LAUNCH,
            place.line,
            partial(self._start_launch, launching),
            launch=request.number,
            receiver=receiver,
            depth=depth,
        )
        self._open[request.number] = launching
        return self._add(call)

    def move(
        self, place: StreamPlace, kind: HostCallKind, pieces: Sequence[Piece], begun: Callable[[], None]
    ) -> StreamCall:
        """Has the host write, read or copy *pieces* in a stream. The bytes change when the transfer begins.

        *begun* is called then, before the bytes change. Raises TopologyError when no links lead to a memory, or none
        back.
        """
        self._session.memory.keep_initial()
        transfers: list[tuple[Any, ...]] = []
        if self._host is not None:
            leg = self._host.channels.leg
            transfers = [
                tuple(leg(each, is_write) for each, is_write in ((src, False), (dst, True)) if each is not None)
                for src, dst, _ in pieces
            ]
        call = StreamCall(place.stream, kind, place.line)
        call.start = partial(self._start_move, call, pieces, transfers, begun)
        return self._add(call)

    def wait_for(self, call: StreamCall | None = None) -> None:
        """Has the clock run until *call* has ended, or, without it, until all calls have.

        Raises the errors of kernels and blocks, and SimulationStuckError where a call can never end. Nothing more can
        be simulated then.
        """
        try:
            self._streams.wait_for(call)
        except BaseException as error:
            self._abandon(error)
            raise
        self._note_look(call)

    def _note_look(self, call: StreamCall | None) -> None:
        """Logs that the host's Python waited for *call*, or for all calls."""
        recorder, number = self._session.recorder, self._streams.take_number()
        if call is None:
            self._session.under_way.looked()
        else:
            call.is_seen = True
        if recorder is not None:
            now_ps, text = self._clock.now_ps, "host"
            looked_at = -1 if call is None else call.number
            numbers = number, NO_STREAM, HostCallKind.LOOK, -1, looked_at, -1, -1, *[now_ps] * 4
            recorder.program_synced("calls", (text,), numbers)

    def _add(self, call: StreamCall) -> StreamCall:
        """Has the driver make *call*. Its texts enter the log now, so that their numbers follow from the calls."""
        if self._session.recorder is not None:
            for text in (call.line, stream_name(call.stream)):
                self._session.recorder.number_of(text)
        return self._streams.add(call)

    def _message(self, launching: _Launching, stream: int) -> KernelLaunch:
        return KernelLaunch(launch=launching.request.number, targets=tuple(launching.targets), stream=stream)

    def _start_launch(self, launching: _Launching, done: Callable[[], None]) -> None:
        """The launch leaves the host now; without a host, it begins."""
        number, session, host = launching.request.number, self._session, self._host
        call = launching.call
        if host is None:
            self._dispatch(launching)
            launch = self._launch_of(launching)
            left = [len(launch.pe_ids)]

            def ended() -> None:
                left[0] -= 1
                if not left[0]:
                    self._clock.call_at(self._clock.now_ps, lambda _: self._answered(launching, done), call)

            for pe_id in launch.pe_ids:
                self._turns.reach(launch, pe_id, self._clock.now_ps, ended)
            return
        if session.tracer is not None:
            n_pes = len(launching.request.pes)
            session.tracer.launch_event(LaunchSent(t_ps=self._clock.now_ps, launch=number, n_pes=n_pes))

        def answered() -> None:
            ok = sent.refusal is None
            if session.tracer is not None:
                response = LaunchResponse(t_ps=self._clock.now_ps, launch=number, ok=ok)
                session.tracer.launch_event(response)
            if sent.refusal is not None:
                refusal = sent.refusal
                raise KernelError(refusal.where, refusal.got, refusal.needs, refusal.fix)
            self._answered(launching, done)

        sent = SentCall(1, answered)
        host.send([self._message(launching, call.stream)], sent)

    def _dispatched(self, message: KernelLaunch) -> None:
        """An io_cpu is about to pass on a launch of a stream."""
        launching = self._open[message.launch]
        if launching.made is None:
            self._dispatch(launching)

    def _dispatch(self, launching: _Launching) -> None:
        """Makes the launch, and gives it its turn on each PE."""
        listeners, under_way = self._session.listeners, self._session.under_way
        if not self._n_running:
            if listeners.on_launch is not None:
                listeners.on_launch()
            self._work.begins()
            for number in [number for number, launch in self._launches.items() if not launch.unfinished]:
                del self._launches[number]
        self._n_running += 1
        under_way.begin()
        if under_way.is_one and self._wing is not None:
            self._wing.launch_begins(len(launching.request.pes))
        request = launching.request._replace(called_ps=launching.call.called_ps)
        launching.made = made_launch(self._strategies, request)
        launch = launching.made.launch
        self._launches[launch.number] = launch
        self._turns.enter(launch.number, launch.pe_ids)

    def _answered(self, launching: _Launching, done: Callable[[], None]) -> None:
        """The last answer of a launch is at the host; without a host, its last PE has ended."""
        session, made, number = self._session, launching.made, launching.request.number
        assert made is not None, "an answered launch was passed on"
        launch, now_ps = made.launch, self._clock.now_ps
        launch.exchange.close()
        session.under_way.end()
        del self._open[number]
        self._work.ended(launching.request.call.kernel, made.ended(), launch.exchange.is_used)
        self._n_running -= 1
        if self._n_running:
            self._work.begins()
        elif session.listeners.on_launched is not None:
            session.listeners.on_launched()
        result = launch.result(launching.call.called_ps, now_ps, launching.call.stream)
        result = result if self._host is not None else replace(result, response_ps=result.end_ps)
        launching.call.result = result
        launching.got(result)
        done()

    def _launch_of(self, launching: _Launching) -> Launch:
        assert launching.made is not None, "the launch is made"
        return launching.made.launch

    def _start_move(
        self,
        call: StreamCall,
        pieces: Sequence[Piece],
        transfers: Sequence[tuple[Any, ...]],
        begun: Callable[[], None],
        done: Callable[[], None],
    ) -> None:
        """The transfer begins now: all its bytes change, as by one command for each piece."""
        session, clock = self._session, self._clock
        session.under_way.begin()
        begun()
        call.first_seq = session.commands_issued
        numbers = [self._take_effect(piece) for piece in pieces if piece.dst is not None]
        call.end_seq = session.commands_issued if numbers else -1

        def ended(times_ps: Sequence[tuple[int, int]]) -> None:
            session.under_way.end()
            recorder = session.recorder
            if recorder is not None:
                if call.kind is HostCallKind.READ:
                    recorder.host_reads(call.number, [piece.in_memory for piece in pieces])
                for piece, ids, times in zip(pieces, numbers, times_ps, strict=False):
                    data = b"" if piece.data is None else piece.data.tobytes()
                    recorder.host_moved(HostMove(piece.src, piece.in_memory, data, call.line, ids, times))
            done()

        if not transfers:
            now = clock.now_ps, clock.now_ps
            clock.call_at(now[0], lambda _: ended([now] * len(pieces)), call)
            return
        moved = HostTransfers(self._host.channels, transfers, lambda: ended(moved.times_ps))  # type: ignore[union-attr]
        moved.start()

    def _take_effect(self, piece: Piece) -> tuple[int, int]:
        """Changes the bytes of the target of *piece*. Returns the number of the command, and of its op."""
        memory, target = self._session.memory, piece.in_memory
        if piece.data is not None:
            memory.store.write_tensor(*split_address(target.address), piece.data, copy=False)
            memory.pending.clear(target)
        elif piece.src is not None:
            producer, known = memory.load([piece.src], None)
            memory.put(target, target, known, producer)
        return self._session.take_numbers() if self._session.recorder is not None else (0, 0)

    def _ended(self, call: StreamCall) -> None:
        """Logs *call*, which has ended."""
        recorder, event = self._session.recorder, call.event
        if recorder is None:
            return
        number = -1 if event is None else event.number
        seqs = call.first_seq, call.end_seq
        times_ps = call.called_ps, call.made_ps, call.start_ps, call.end_ps
        recorder.program_synced(
            "calls", (call.line,), (call.number, call.stream, call.kind, call.launch, number, *seqs, *times_ps)
        )
        if call.kind is HostCallKind.WAIT and call.end_ps > call.start_ps:
            recorded = None if event is None else event.recorded_by
            assert recorded is not None, "the event has happened"
            names = stream_name(call.stream), call.line, stream_name(recorded.stream)
            self._log_wait(names, SyncReason.EVENT, (call.start_ps, call.end_ps, recorded.number, call.number))

    def _waited_for_pe(self, pe_id: str, launch: Launch, from_ps: int, to_ps: int, before: int) -> None:
        """*launch* waited for a PE, which launch *before* had."""
        call = self._open[launch.number].call
        self._log_wait((pe_id, call.line, pe_id), SyncReason.PE_BUSY, (from_ps, to_ps, before, call.number))

    def _log_wait(self, texts: tuple[str, str, str], reason: SyncReason, numbers: tuple[int, int, int, int]) -> None:
        if self._session.recorder is not None:
            self._session.recorder.program_synced("waits", texts, (reason, *numbers, -1, -1, -1, 0, -1))

    def _run(self) -> None:
        """Has the clock run until a call that is awaited has ended, or nothing is left to happen."""
        with watching(self._clock, self._limits.watchdog_s):
            if self._host is not None:
                self._host.drain()
                return
            on_return = self._session.listeners.on_return
            try:
                self._clock.drain()
            finally:
                if on_return is not None:
                    on_return()

    def _stuck(self) -> NoReturn:
        """Raises the error of calls that nothing ends any more."""
        self._clock.mark_broken()
        calls = [*self._streams.open_calls]
        if any(runner.has_begun for launch in self._launches.values() for runner in launch.runners):
            self._raise_stuck("deadlock", "no event is scheduled", waits_for_pes(calls, self._turns))
        raise stuck_streams_error(f"deadlock at {ns_text(self._clock.now_ps)}", calls, self._turns)

    def _abandon(self, error: BaseException) -> None:
        """Ends all launches that are under way, because of *error*, which is raised."""
        never_yields = isinstance(error, KernelNeverYields)
        if self._wing is not None and (never_yields or isinstance(error, Exception)):
            self._wing.launch_failed()
        self._clock.mark_broken()
        launches = [self._launch_of(each) for each in self._open.values() if each.made is not None]
        for launch in launches:
            launch.abandon(error)
        if never_yields:
            stopped = next(each for each in launches if any(runner.stopped_at for runner in each.runners))
            raise never_yields_error(error, stopped, self._limits) from TimeoutError("an error of this machine")


def stream_name(number: int) -> str:
    """The name of stream *number* in the log and in reports."""
    return "no stream" if number == NO_STREAM else f"stream {number}"
