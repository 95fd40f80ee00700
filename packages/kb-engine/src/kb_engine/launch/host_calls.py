"""HostCalls: the host's calls on the chip, and what a PE does with the messages.

Design: docs/design/launch-and-host.md

Messages go over the fabric to the PEs, and reads and writes go to the memories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kb_engine.block.block_directory import BlockDirectory, Receiver
from kb_engine.block.control_roles import CommandDispatcher, HostPort, respond, send_message, split_message
from kb_engine.fabric.fabric import Fabric
from kb_engine.launch.host_transfers import HostChannels, HostTransfers
from kb_engine.launch.launch import Launch
from kb_engine.launch.pe_turns import PeTurns
from kb_engine.program.pe import ProcessingElement
from kb_engine.timing.clock import Clock
from kb_engine.timing.units import ns_text
from kb_messages import (
    HostMessage,
    KbError,
    KernelError,
    KernelLaunch,
    Matrix,
    MmuMessage,
    Refusal,
    Request,
    Response,
    SimulationStuckError,
)


class HostCall(Struct, frozen=True, kw_only=True):
    """A finished call: its time, the time of the last answer, and the first refusal, if there was one."""

    call_ps: int
    response_ps: int
    refusal: Refusal | None


class SentCall:
    """Messages that the host sent together: how many are `unanswered`, and the first `refusal`, if there was one.

    *answered* is called when the last answer is there.
    """

    def __init__(self, n_messages: int, answered: Callable[[], None]) -> None:
        self.unanswered = n_messages
        self.refusal: Refusal | None = None
        self._answered = answered

    def answer(self, response: Response) -> None:
        """Counts the answer to one message."""
        self.refusal = self.refusal or response.refusal
        self.unanswered -= 1
        if not self.unanswered:
            self._answered()


class HostCalls:
    """Makes the host's calls. `call` and `move` return when the call is answered; no time passes between two of them.

    `send` and `transfers` return at once, for streams. `channels` has the host's channels, which all transfers share.
    """

    def __init__(
        self,
        clock: Clock,
        fabric: Fabric,
        port: HostPort[Any],
        directory: BlockDirectory,
        returned: Callable[[], None] | None = None,
    ) -> None:
        """*returned* is called after each call and after each transfer."""
        self.port = port
        self._clock = clock
        self._directory = directory
        self._returned = returned
        self.channels = HostChannels(clock, fabric, port)
        self._numbers = 0
        self._open: dict[int, SentCall] = {}
        self._last = SentCall(0, clock.stop)

    def call(
        self,
        messages: Sequence[HostMessage],
        on_sent: Callable[[int], None] | None = None,
    ) -> HostCall:
        """Sends *messages* in one call of the driver. Returns when all are answered or no event is left.

        *on_sent* is called with the time at which the messages leave the host.
        """
        call_ps = self._clock.now_ps
        sent_ps = call_ps + self.port.overhead_ps()
        call = self._last = SentCall(len(messages), self._clock.stop)
        if on_sent is not None:
            self._clock.call_at(sent_ps, on_sent, sent_ps)
        self._clock.call_at(sent_ps, lambda _: self.send(messages, call), None)
        self.drain()
        return HostCall(call_ps=call_ps, response_ps=self._clock.now_ps, refusal=call.refusal)

    def check_answered(self) -> None:
        """Raises SimulationStuckError when a message of the last call has no answer. The error says who waits."""
        n = self._last.unanswered
        if n:
            self._clock.mark_broken()
            waiting = [f"{self.port.node_id} waits for answers to {n} message{'s' if n > 1 else ''}"]
            for block in self._directory.blocks.values():
                waiting += block.waiting_for() if isinstance(block, CommandDispatcher) else []
            got = f"no event is scheduled, and messages have no answer: {', '.join(waiting)}"
            raise SimulationStuckError(f"deadlock at {ns_text(self._clock.now_ps)}", got, "an answer to every request")

    def accepted(self, call: HostCall) -> HostCall:
        """Returns *call*, which is the last one.

        Raises KernelError when a block refused the call, and SimulationStuckError when it has no answer.
        """
        self.check_answered()
        if call.refusal is not None:
            raise KernelError(call.refusal.where, call.refusal.got, call.refusal.needs, call.refusal.fix)
        return call

    def move(self, matrices: Sequence[Matrix], write: bool) -> list[tuple[int, int]]:
        """Reads or writes *matrices* on the channels of the host. Returns the start and the end of each transfer.

        Raises TopologyError when no links lead to the memory of a matrix, or none back.
        """
        pieces = [(self.channels.leg(each, write),) for each in matrices]
        transfers = HostTransfers(self.channels, pieces, self._clock.stop)
        self._clock.call_at(self._clock.now_ps + self.port.overhead_ps(), transfers.start, None)
        self.drain()
        return transfers.times_ps

    def answered(self, response: Response) -> None:
        """Counts the answer to one message, which arrives at the host's port."""
        self._open.pop(response.number).answer(response)

    def drain(self) -> None:
        """Has the clock run until a call stops it, or nothing is left to happen."""
        try:
            self._clock.drain()
        finally:
            if self._returned is not None:
                self._returned()

    def send(self, messages: Sequence[HostMessage], call: SentCall) -> None:
        """Sends the *messages* of *call* now."""
        for message in messages:
            receiver = self.first_io_cpu(message)
            request = Request(sender=self.port.node_id, number=self._numbers, message=message)
            self._open[self._numbers] = call
            self._numbers += 1
            send_message(self.port, receiver.node_id, receiver.receive, request, message)

    def first_io_cpu(self, message: HostMessage) -> Receiver:
        """Returns the io_cpu of the lowest SIP among the targets, or the first io_cpu where no target exists.

        The first io_cpu refuses a message without an existing target, and its refusal names the target.
        """
        node_id, sips = self.port.node_id, list(self._directory.sips)
        try:
            wanted = [sip for sip, _ in split_message(message, lambda cube: cube[0], self._cube_of)]
        except KernelError:
            wanted = []
        return self._directory.io_cpu(min((sip for sip in wanted if sip in sips), default=sips[0]), node_id)

    def _cube_of(self, pe_id: str) -> tuple[int, int]:
        return self._directory.cube_of(pe_id, self.port.node_id)


class PeMessages:
    """Takes the requests that reach the CPU of *pe*: launches of kernels, and messages for the MMU.

    *launches* holds the launches under way, by number. A launch of a stream waits for its turn by *turns*.
    """

    def __init__(self, pe: ProcessingElement, launches: Mapping[int, Launch], turns: PeTurns) -> None:
        self._pe = pe
        self._launches = launches
        self._turns = turns

    def take(self, request: Request) -> None:
        """Starts the launch or has the MMU obey. The answer to *request* leaves when that is done."""
        message = request.message
        if not isinstance(message, KernelLaunch):
            respond(self._pe.cpu, request, self._obey(message))
            return
        target_ps = self._pe.cpu.clock.now_ps if message.target_start_ps is None else message.target_start_ps
        launch = self._launches[message.launch]
        if message.stream is None:
            launch.reach(self._pe.pe_id, target_ps, lambda: respond(self._pe.cpu, request))
        else:
            self._turns.reach(launch, self._pe.pe_id, target_ps, lambda: respond(self._pe.cpu, request))

    def _obey(self, message: MmuMessage) -> Refusal | None:
        try:
            if self._pe.mmu is None:
                raise KernelError("map", f"{self._pe.pe_id}, which has no MMU", "a pe_mmu in pe_template")
            self._pe.mmu.apply(message)
        except KbError as error:
            return Refusal(where=error.where, got=error.got, needs=error.needs, fix=error.fix)
        return None
