"""Roles of the blocks that the host's messages pass: the host's port, and the processors that spread them over PEs.

A message goes down to the PEs as requests, and each processor counts the answers that come back. Requests and answers
are both messages on the fabric.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeGuard, TypeVar

from msgspec.structs import replace

from kb_engine.block.block_directory import Cube, Receiver
from kb_engine.block.component import ComponentBase, SpecT
from kb_engine.block.fabric_roles import TransferSource
from kb_engine.block.state_visitor import State
from kb_messages import CubeTarget, HostMessage, KbError, KernelLaunch, MessageKind, Refusal, Request, Response

PlaceT = TypeVar("PlaceT")


def split_message(
    message: HostMessage, place: Callable[[Cube], PlaceT], cube_of: Callable[[str], Cube]
) -> list[tuple[PlaceT, HostMessage]]:
    """The part of *message* for each place, in the order of the first targets.

    A target belongs to the place that *place* returns for its cube. A message that names PEs by id asks *cube_of* for
    their cubes; errors of *cube_of* pass through.
    """
    if isinstance(message, KernelLaunch):
        targets: dict[PlaceT, list[CubeTarget]] = {}
        for target in message.targets:
            targets.setdefault(place((target.sip, target.cube)), []).append(target)
        return [(each, replace(message, targets=tuple(mine))) for each, mine in targets.items()]
    pes: dict[PlaceT, list[str]] = {}
    for pe in message.pes:
        pes.setdefault(place(cube_of(pe)), []).append(pe)
    return [(each, replace(message, pes=tuple(mine))) for each, mine in pes.items()]


class MessagePart(NamedTuple):
    """The part of a message that a dispatcher sends to one block."""

    receiver: Receiver
    message: HostMessage


class HostPort(TransferSource[SpecT]):
    """The host's end of the bus."""

    on_response: Callable[[Response], None]

    @abstractmethod
    def overhead_ps(self) -> int:
        """Picoseconds that a call of the driver takes before anything leaves the host. Pure."""

    @property
    @abstractmethod
    def channels(self) -> int:
        """The most reads and writes of memory that are under way at once. Pure."""

    def answer(self, response: Response) -> None:
        """*response* arrives now."""
        self.on_response(response)


class _Open:
    """A request whose parts are under way."""

    def __init__(self, request: Request, left: int) -> None:
        self.request = request
        self.left = left
        self.refusal: Refusal | None = None


class CommandDispatcher(ComponentBase[SpecT]):
    """IO_CPU, M_CPU: reads requests one at a time, passes their parts on, and answers when all parts are answered.

    The first block on the way of a launch of a stream passes the launch on when the launch of the stream before it is
    answered here. Counting answers takes no time. Source: assumed.
    """

    state: ClassVar[State] = ("_free_ps", "_open", "_sent", "_streams")

    def __init__(self, spec: SpecT, context: Any) -> None:
        super().__init__(spec, context)
        self._free_ps = 0
        self._sent = 0
        self._open: dict[int, _Open] = {}
        self._streams: dict[int | None, deque[Request]] = {}

    @property
    def stream_depth(self) -> int:
        """The most launches of a stream that the host sends here before one of them is answered. Pure."""
        return 1

    @abstractmethod
    def overhead_ps(self) -> int:
        """Picoseconds to read a request and decide where its parts go. Pure."""

    @abstractmethod
    def parts(self, message: HostMessage) -> list[MessagePart]:
        """The parts to pass on. Raises KbError for a missing target; then no part leaves, and the answer says so."""

    def stamped(self, message: HostMessage) -> HostMessage:
        """*message* with its run-time fields filled in, such as a launch's start. Raises the KbError of `parts`.

        Called after the overhead, before `parts`.
        """
        return message

    def part_nbytes(self, message: HostMessage) -> int:
        """Bytes that each part puts on the fabric. Pure."""
        return 0

    def reach_ps(self, message: HostMessage) -> int:
        """Picoseconds from the end of this block's overhead until the last PE has *message*.

        The parts count as messages without bytes. Every processor on the way pays its overhead once, and no part waits
        for another. Raises the KbError of `parts`.
        """
        return max((self._way_ps(part) for part in self.parts(message)), default=0)

    def receive(self, request: Request) -> None:
        """Reads *request* after the requests before it, and passes it on."""
        self._free_ps = max(self.clock.now_ps, self._free_ps) + self.overhead_ps()
        self.clock.call_at(self._free_ps, self._dispatch, request)

    def answer(self, response: Response) -> None:
        """The answer to one part arrives."""
        request = self._open[response.number]
        request.left -= 1
        request.refusal = request.refusal or response.refusal
        if not request.left:
            del self._open[response.number]
            self._respond(request.request, request.refusal)

    def waiting_for(self) -> list[str]:
        """One sentence for every request without an answer. The report of a stuck simulation asks."""
        return [f"{self.node_id} waits for {each.left} answers" for each in self._open.values()]

    def _dispatch(self, request: Request) -> None:
        """Passes *request* on, or keeps it while an earlier launch of its stream is under way."""
        if _waits_in_stream(request.message):
            queue = self._streams.setdefault(request.message.stream, deque())
            queue.append(request)
            if len(queue) > 1:
                return
        self._pass_on(request)

    def _respond(self, request: Request, refusal: Refusal | None) -> None:
        """Answers *request*, and passes on the launch of its stream that waits for the answer."""
        respond(self, request, refusal)
        message = request.message
        if _waits_in_stream(message):
            queue = self._streams[message.stream]
            queue.popleft()
            if queue:
                self._pass_on(queue[0])
            else:
                del self._streams[message.stream]

    def _pass_on(self, request: Request) -> None:
        message, directory = request.message, self.context.directory
        if directory.on_dispatch is not None and _waits_in_stream(message):
            directory.on_dispatch(message)
        try:
            message = self.stamped(message)
            parts = self.parts(message)
        except KbError as error:
            self._respond(request, Refusal(where=error.where, got=error.got, needs=error.needs, fix=error.fix))
            return
        number, self._sent = self._sent, self._sent + 1
        self._open[number] = _Open(request, len(parts))
        nbytes = self.part_nbytes(message)
        for receiver, part in parts:
            onward = Request(sender=self.node_id, number=number, message=part)
            send_message(self, receiver.node_id, receiver.receive, onward, part, nbytes)

    def _way_ps(self, part: MessagePart) -> int:
        receiver = part.receiver
        way_ps: int = self.context.fabric.leg(self.node_id, receiver.node_id).latency_ps
        if isinstance(receiver, CommandDispatcher):
            return way_ps + receiver.overhead_ps() + receiver.reach_ps(part.message)
        return way_ps


def _waits_in_stream(message: HostMessage) -> TypeGuard[KernelLaunch]:
    """Whether *message* is a launch of a stream that has no start yet, so that this block is the first on its way."""
    return isinstance(message, KernelLaunch) and message.stream is not None and message.target_start_ps is None


def respond(block: ComponentBase[Any], request: Request, refusal: Refusal | None = None) -> None:
    """Answer *request*, which *block* received, over the fabric."""
    context = block.context
    sender = context.directory.blocks[request.sender]
    response = Response(number=request.number, refusal=refusal)
    send_message(block, request.sender, sender.answer, response, request.message)


def send_message(
    block: ComponentBase[Any],
    to: str,
    deliver: Callable[[Any], None],
    message: Request | Response,
    about: HostMessage,
    nbytes: int = 0,
) -> None:
    """Sends *message*, which is about a message of the host, from *block* to node *to*.

    `deliver(message)` is called when the message arrives. The directory's listener is notified of messages about a
    launch.
    """
    clock, context = block.clock, block.context
    sent_ps, tell = clock.now_ps, context.directory.on_message
    if tell is None or not isinstance(about, KernelLaunch):
        context.fabric.send(block.node_id, to, nbytes, sent_ps, deliver, message)
        return
    kind = MessageKind.REQUEST if isinstance(message, Request) else MessageKind.RESPONSE

    def arrive(arrived: Any) -> None:
        tell((block.node_id, to), (about.launch, kind, sent_ps, clock.now_ps))
        deliver(arrived)

    context.fabric.send(block.node_id, to, nbytes, sent_ps, arrive, message)
