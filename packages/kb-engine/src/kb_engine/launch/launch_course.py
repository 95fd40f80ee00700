"""LaunchCourse: how a launch reaches its PEs, and how their answers come back, where nothing else is on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from kb_engine.launch.answer_tree import Answers, AnswerTree
from kb_engine.launch.launch import LaunchResult
from kb_engine.observe.run_tables import Message, ToldRows, later_messages
from kb_messages import MessageKind


class LaunchCourse:
    """The moments of a launch, each in picoseconds after the call, and who answers whom in *tree*.

    `targets_ps` are those at which PEs are to begin, and `begins` has the moments at which they do, in order, each with
    the PEs in their order. `requests` are the rows of messages of the log before the first begin.
    """

    def __init__(
        self,
        targets_ps: Mapping[str, int],
        begins: Sequence[tuple[int, tuple[str, ...]]],
        requests: Sequence[Message],
        tree: AnswerTree,
        cpus: Mapping[str, str],
    ) -> None:
        """*cpus* has the node of each PE's PE_CPU."""
        self.targets_ps = targets_ps
        self.begins = begins
        self.requests = requests
        self._tree = tree
        self._cpus = cpus
        self._pe_ids = {node_id: pe_id for pe_id, node_id in cpus.items()}

    @property
    def downwards(self) -> tuple[object, ...]:
        """All but who answers whom."""
        return self.targets_ps, self.begins, self.requests

    def answers(self, ends_ps: Mapping[str, int]) -> Answers:
        """How the PEs answer that end at *ends_ps*."""
        cpus, pe_ids = self._cpus, self._pe_ids
        found = self._tree.answers({cpus[pe_id]: end_ps for pe_id, end_ps in ends_ps.items()})
        return found._replace(ends=tuple([pe_ids[node_id] for node_id in found.ends]))

    @cached_property
    def answers_at_once(self) -> Answers:
        """As `answers`, as if the call were at 0 and programs took no time."""
        return self.answers({pe_id: after_ps for after_ps, pe_ids in self.begins for pe_id in pe_ids})


def course_of(
    moments: tuple[Mapping[str, int], Mapping[str, int], Mapping[str, int]],
    result: LaunchResult,
    told: ToldRows | None,
    tree: AnswerTree,
    cpus: Mapping[str, str],
) -> LaunchCourse | None:
    """The course of a launch with *result*. *moments* are those at which its PEs were to begin, began and ended, in
    this order. *told* are its rows in the log.

    None where PEs began late, or answered otherwise than *tree* says.
    """
    targets_ps, starts_ps, ends_ps = moments
    messages, call_ps = [] if told is None else told.messages, result.call_ps
    is_request = [kind == MessageKind.REQUEST for _, (_, kind, *_) in messages]
    n_requests = sum(is_request)
    arrived_ps = [arrived_ps for _, (*_, arrived_ps) in messages[:n_requests]]
    if result.late_ps or not all(is_request[:n_requests]) or max(arrived_ps, default=0) > result.start_ps:
        return None
    begins: dict[int, list[str]] = {}
    for pe_id, start_ps in starts_ps.items():
        begins.setdefault(start_ps - call_ps, []).append(pe_id)
    course = LaunchCourse(
        {pe_id: target_ps - call_ps for pe_id, target_ps in targets_ps.items()},
        [(after_ps, tuple(pe_ids)) for after_ps, pe_ids in begins.items()],
        later_messages(messages[:n_requests], 0, -call_ps),
        tree,
        cpus,
    )
    answers = course.answers(ends_ps)
    is_as_told = told is None or answers.messages == later_messages(messages[n_requests:], 0, 0)
    return course if is_as_told and (answers.ends, answers.answered_ps) == ((*ends_ps,), result.response_ps) else None
