"""Random programs that send, receive, free, signal, wait and meet, in any order: many of them wait for each other for
ever. An interpreter without times says how far each program comes.

How far a program comes does not depend on times: each step waits for one program or counter, and only grows what
others wait for.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import Any, NamedTuple

Step = tuple[Any, ...]


class StuckCase(NamedTuple):
    """The steps of each program, on PEs with *depth* slots for each channel."""

    programs: list[list[Step]]
    depth: int


class Ended(NamedTuple):
    """The number of steps that each program has done, and of messages that nobody received."""

    done: list[int]
    n_lost: int


def case_of(seed: int) -> StuckCase:
    """Case number *seed*: 2 to 5 programs. Steps are drawn in pairs that fit; some are dropped, or come earlier."""
    rng = random.Random(seed)
    n, depth, disorder = rng.randint(2, 5), rng.randint(1, 3), rng.choice((0.0, 0.05, 0.2))
    programs: list[list[Step]] = [[] for _ in range(n)]
    for _ in range(rng.randint(3, 24)):
        one, other = rng.sample(range(n), 2)
        kind, tag = rng.choice(("messages", "messages", "signal", "barrier")), rng.randrange(2)
        n_sent = rng.randint(1, 4)
        pairs = {
            "messages": [(one, ("send", other, tag))] * n_sent + [(other, ("recv", one, tag))] * n_sent,
            "signal": [(one, ("signal", other, tag)), (other, ("wait_for", tag, 1))],
            "barrier": [(each, ("barrier", (one, other))) for each in (one, other)],
        }[kind]
        if rng.random() < disorder / 2:
            pairs.pop(rng.randrange(len(pairs)))
        for program, step in pairs:
            steps = programs[program]
            earlier = rng.randint(1, 3) if rng.random() < disorder else 0
            steps.insert(max(0, len(steps) - earlier), step)
            if step[0] == "recv" and rng.random() < 0.8:
                steps.append(("free",))
    return StuckCase(programs, depth)


def kernel_of(case: StuckCase, done: list[int]) -> Any:
    """A kernel that does the steps of its program, and counts them in *done*."""

    def kernel(tl: Any, x: Any) -> None:
        me = tl.program_id()
        value, held, waited = tl.load(x), deque[Any](), Counter[int]()
        for step, *given in case.programs[me]:
            if step == "send":
                tl.send(value, *given)
            elif step == "recv":
                held.append(tl.recv(*given))
            elif step == "free":
                if held:
                    tl.free(held.popleft())
            elif step == "signal":
                tl.signal(*given)
            elif step == "wait_for":
                waited[given[0]] += 1
                tl.wait_for(given[0], waited[given[0]])
            else:
                tl.barrier(*given)
            done[me] += 1

    return kernel


def interpreted(case: StuckCase) -> Ended:
    """How far the programs of *case* come, without times."""
    machine = _Machine(case)
    while any(machine.advances(each) for each in range(len(case.programs))):
        pass
    return Ended(machine.done, sum(len(each) for each in machine.coming.values()))


class _Machine:
    def __init__(self, case: StuckCase) -> None:
        self.case = case
        self.done = [0] * len(case.programs)
        self.coming: dict[Any, deque[int]] = {}
        self.full: Counter[Any] = Counter()
        self.held: list[deque[Any]] = [deque() for _ in case.programs]
        self.flags: Counter[Any] = Counter()
        self.waited: Counter[Any] = Counter()
        self.met: Counter[Any] = Counter()
        self.at_barrier: set[int] = set()

    def advances(self, me: int) -> bool:
        """Does the steps of program *me* that can be done. Returns whether there was one."""
        steps, begin = self.case.programs[me], self.done[me]
        while self.done[me] < len(steps) and getattr(self, f"_{steps[self.done[me]][0]}")(
            me, *steps[self.done[me]][1:]
        ):
            self.done[me] += 1
        if self.done[me] == len(steps):
            while self.held[me]:
                self._free(me)
        return self.done[me] > begin

    def _send(self, me: int, to: int, tag: int) -> bool:
        key = me, to, tag
        if self.full[key] == self.case.depth:
            return False
        self.full[key] += 1
        self.coming.setdefault(key, deque()).append(1)
        return True

    def _recv(self, me: int, source: int, tag: int) -> bool:
        key = source, me, tag
        if not self.coming.get(key):
            return False
        self.coming[key].popleft()
        self.held[me].append(key)
        return True

    def _free(self, me: int) -> bool:
        if self.held[me]:
            self.full[self.held[me].popleft()] -= 1
        return True

    def _signal(self, me: int, to: int, flag: int) -> bool:
        self.flags[to, flag] += 1
        return True

    def _wait_for(self, me: int, flag: int, n: int) -> bool:
        if self.flags[me, flag] < self.waited[me, flag] + 1:
            return False
        self.waited[me, flag] += 1
        return True

    def _barrier(self, me: int, members: tuple[int, int]) -> bool:
        other = members[1 - members.index(me)]
        if me not in self.at_barrier:
            self.at_barrier.add(me)
            self.met[me, members] += 1
        if self.met[other, members] < self.met[me, members]:
            return False
        self.at_barrier.discard(me)
        return True
