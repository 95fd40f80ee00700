"""Runs jobs on the fabric of an engine, and notes when each was started and when it ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from contention_bursts import Transfer
from contention_chips import PREFIX

from kb_engine import Engine
from kb_messages import Rectangle
from kb_topology import Topology


class Job(NamedTuple):
    """A transfer that a DMA or a CPU starts at *not_before_ps*, or when the DMA has ended a transfer before it.

    A DMA has as many reads at once as its chip says, and as many writes and messages.
    """

    kind: str
    src: str
    dst: str
    nbytes: int
    not_before_ps: int
    offset: int = 0


class Outcome(NamedTuple):
    """A job that ran: its transfer as it started, and when the engine ended it."""

    job: Job
    transfer: Transfer
    end_ps: int


class EngineRun:
    """One engine. Outcomes are in the order in which the jobs were called."""

    def __init__(self, topology: Topology, jobs: Sequence[Job], outstanding: int = 1) -> None:
        self.engine = Engine(topology)
        self.outstanding = outstanding
        self.called: list[tuple[Job, Transfer]] = []
        self.ends: dict[int, int] = {}
        self.channels: dict[tuple[object, ...], deque[Job]] = {}
        for number, job in enumerate(jobs):
            channel = (job.src, job.kind == "read") if job.src.endswith("dma") else (number,)
            self.channels.setdefault(channel, deque()).append(job)

    def run(self) -> list[Outcome]:
        for channel in self.channels:
            for _ in range(self.outstanding):
                self.plan(channel)
        self.engine.clock.drain()
        return [Outcome(job, transfer, self.ends[number]) for number, (job, transfer) in enumerate(self.called)]

    def plan(self, channel: tuple[object, ...]) -> None:
        """Start the channel's next job now, or as soon as it may."""
        jobs, clock = self.channels[channel], self.engine.clock
        if not jobs:
            return
        job = jobs.popleft()
        if job.not_before_ps > clock.now:
            clock.call_at(job.not_before_ps, self.call, (channel, job))
        else:
            self.call((channel, job))

    def call(self, planned: tuple[tuple[object, ...], Job]) -> None:
        channel, job = planned
        fabric, src, dst = self.engine.fabric, PREFIX + job.src, PREFIX + job.dst
        lead_ps = getattr(self.engine.components[src], "lead_ps", 0)
        start_ps = self.engine.clock.now + lead_ps
        argument = channel, len(self.called)
        self.called.append((job, Transfer(job.kind, src, dst, job.nbytes, start_ps, job.offset)))
        if job.kind == "message":
            fabric.send(src, dst, job.nbytes, start_ps, self.finish, argument)
            return
        address_map = self.engine.topology.address_map
        named = next((each for each in address_map.interleaved.values() if each.memory == job.dst), None)
        region = named or address_map.region_of_node(dst)
        start = fabric.read if job.kind == "read" else fabric.write
        memory = Rectangle(region.base + job.offset, 1, job.nbytes, job.nbytes)
        start(fabric.path(src, region.owner), memory, start_ps, self.finish, argument)

    def finish(self, argument: tuple[tuple[object, ...], int]) -> None:
        channel, number = argument
        self.ends[number] = self.engine.clock.now
        self.plan(channel)
