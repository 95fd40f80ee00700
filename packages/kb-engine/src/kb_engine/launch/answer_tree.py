"""AnswerTree: the ways on which the PEs of a launch answer the host, and when their answers come."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Any, Final, NamedTuple

from kb_engine.block.block_directory import Receiver
from kb_engine.block.control_roles import CommandDispatcher, HostPort
from kb_engine.observe.run_tables import Message
from kb_messages import KernelLaunch, MessageKind

_RESPONSE: Final = MessageKind.RESPONSE  # Python 3.11 looks a member of an enumeration up by a call
_ARRIVES, _ENDS = range(2)
"""What happens first in a picosecond: entries of the clock that belong to no PE come before those of PEs."""


class Answers(NamedTuple):
    """The PEs in the order in which they end, the messages in the order in which they arrive, of no launch, and when
    the last one is at the host."""

    ends: tuple[str, ...]
    messages: list[Message]
    answered_ps: int


class _NotPlainError(Exception):
    """A processor answers in a way of its own, or gets two parts of one launch."""


class AnswerTree:
    """Who answers whom. `above` has, by node, the node that gets its answer, and how long the answer takes."""

    def __init__(self, port: HostPort[Any], first: Receiver, message: KernelLaunch, numbers: Mapping[str, int]) -> None:
        """*port* sends *message* to *first*. *numbers* are those of the PE_CPUs, by their nodes, among the PEs."""
        self.above: dict[str, tuple[str, int]] = {}
        self._numbers = numbers
        self._n_parts: dict[str, int] = {port.node_id: 1}
        self._host_id = port.node_id
        if type(port).answer is not HostPort.answer:
            raise _NotPlainError
        self._add(port, first, message)

    def _add(self, sender: Any, receiver: Receiver, message: Any) -> None:
        node_id = receiver.node_id
        if node_id in self.above:
            raise _NotPlainError
        self.above[node_id] = sender.node_id, sender.context.fabric.leg(node_id, sender.node_id).latency_ps
        if not isinstance(receiver, CommandDispatcher):
            if node_id not in self._numbers:
                raise _NotPlainError
            return
        if type(receiver).answer is not CommandDispatcher.answer:
            raise _NotPlainError
        parts = receiver.parts(message)
        self._n_parts[node_id] = len(parts)
        for part in parts:
            self._add(receiver, *part)

    def answers(self, ends_ps: Mapping[str, int]) -> Answers:
        """What follows where the PEs answer at *ends_ps*, by the nodes of their PE_CPUs."""
        numbers, left = self._numbers, dict(self._n_parts)
        heap: list[tuple[int, int, int, str, int]] = [
            (end_ps, _ENDS, numbers[node_id], node_id, end_ps) for node_id, end_ps in ends_ps.items()
        ]
        heapify(heap)
        ends: list[str] = []
        messages: list[Message] = []
        n_sent = 0
        while heap:
            now_ps, kind, _, node_id, sent_ps = heappop(heap)
            answers = node_id
            if kind == _ENDS:
                ends.append(node_id)
            else:
                answers = self.above[node_id][0]
                messages.append(((node_id, answers), (0, _RESPONSE, sent_ps, now_ps)))
                left[answers] -= 1
                if left[answers]:
                    continue
                if answers == self._host_id:
                    break
            n_sent += 1
            heappush(heap, (now_ps + self.above[answers][1], _ARRIVES, n_sent, answers, now_ps))
        return Answers(tuple(ends), messages, now_ps)


def answer_tree(
    port: HostPort[Any], first: Receiver, message: KernelLaunch, numbers: Mapping[str, int]
) -> AnswerTree | None:
    """As AnswerTree; None where the times of answers follow from more than who answers whom."""
    try:
        return AnswerTree(port, first, message, numbers)
    except _NotPlainError:
        return None
