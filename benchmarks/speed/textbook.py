"""One PE's GEMM in textbook SimPy: the blocks, queues and hops of the engine's model, without the engine's code.

The model reads the chip from the same YAML and does its own arithmetic, so it checks the engine's timing too. The model
is written to be quick. Each block has one process. Latencies that nothing can interrupt are one timeout. The costs of
a tile are computed once for each shape. Queues, slots and Resources exist only where a process can wait. On one PE
nothing waits for a link, because each direction carries one transfer at a time, so links are closed forms here. The
engine keeps a state for each link.

A read that comes while a write comes in is served after the bursts of the write that came before. The model takes it
that rows begin with a burst.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from functools import lru_cache
from typing import Any

import simpy
from chip import ACCUMULATOR, ELEMENT, KIB, Chip, Tile, Transfer, aligned, ceil_div

Shape = tuple[int, int, int]
Process = Generator[simpy.Event, Any, None]


class TextbookPe:
    """Six processes with bounded queues between them: feeder, DMA read, FETCH, GEMM, STORE and DMA write."""

    def __init__(self, chip: Chip, problem: Shape, tile: Shape, *, slot_first: bool = False) -> None:
        """A GEMM of the shape *problem* in tiles of the shape *tile*.

        When the end of a write frees an output slot that a tile waits for, and the next write is queued, the tile's
        read and the write ask the slice in the same picosecond. With *slot_first* the read is first, as in the engine;
        otherwise the write is. *slot_first* costs events, so it is off where speed is measured.
        """
        self.chip, self.problem = chip, problem
        self.yields = 3 if slot_first else 0
        m, n, k = self.tile = (min(problem[0], tile[0]), min(problem[1], tile[1]), min(problem[2], tile[2]))
        self.grid = tuple(ceil_div(size, side) for size, side in zip(problem, self.tile, strict=True))
        self.env = env = simpy.Environment()
        pe = chip.pe
        operands = aligned(m * k * ELEMENT) + aligned(k * n * ELEMENT)
        accumulator, output = aligned(m * n * ACCUMULATOR), aligned(m * n * ELEMENT)
        registers = int(pe["pe_fetch_store"]["memory"]["size"].removesuffix(" KiB")) * KIB
        n_accumulators = 2 if 2 * accumulator + operands <= registers else 1
        self.inputs = slots(env, pe["pe_scheduler"]["input_kib"] * KIB // operands)
        self.outputs = slots(env, pe["pe_scheduler"]["output_kib"] * KIB // output)
        self.accumulators = slots(env, n_accumulators)
        self.operands = slots(env, (registers - n_accumulators * accumulator) // operands)
        self.reads, self.writes = (simpy.Store(env, pe["pe_dma"]["queue_depth"]) for _ in range(2))
        self.fetches, self.stores = (simpy.Store(env, pe["pe_fetch_store"]["queue_depth"]) for _ in range(2))
        self.gemms = simpy.Store(env, pe["pe_gemm"]["queue_depth"])
        self.tcm_port = simpy.Resource(env)
        self.free = 0
        self.incoming: IncomingBytes | None = None
        for process in (self.feed, self.read, self.fetch, self.multiply, self.store, self.write):
            env.process(process())

    @property
    def n_stages(self) -> int:
        m, n, k = self.grid
        return m * n * (4 * k + 2)

    def run(self) -> int:
        """Picoseconds from the kernel's call to the end of its last tile."""
        self.env.run()
        return int(self.env.now)

    def tiles(self) -> Iterator[Tile]:
        made = lru_cache(self.chip.tile)
        rows, cols, depths = (
            [min(side, size - at) for at in range(0, size, side)]
            for size, side in zip(self.problem, self.tile, strict=True)
        )
        final = len(depths) - 1
        for m in rows:
            for n in cols:
                for number, k in enumerate(depths):
                    yield made(m, n, k, number == 0, number == final)

    def feed(self) -> Process:
        yield self.env.timeout(self.chip.command_ps)
        for tile in self.tiles():
            yield self.inputs.get(1)
            if tile.last:
                yield self.outputs.get(1)
            yield self.reads.put(tile)

    def read(self) -> Process:
        while True:
            tile = yield self.reads.get()
            yield from self.fetch_from_memory(tile.read_a)
            yield from self.fetch_from_memory(tile.read_b)
            yield self.fetches.put(tile)

    def fetch_from_memory(self, costs: Transfer) -> Process:
        """The slice serves bytes in the order in which they come: a read after the part of a write before it."""
        env = self.env
        yield env.timeout(costs.lead)
        incoming = self.incoming
        if incoming is not None:
            self.free = incoming.interrupt(env.now, self.free)
        start = max(env.now, self.free)
        self.free = start + costs.service
        yield env.timeout(self.free - env.now + costs.tail)

    def fetch(self) -> Process:
        while True:
            tile = yield self.fetches.get()
            if tile.first:
                yield self.accumulators.get(1)
            yield self.operands.get(1)
            with self.tcm_port.request() as turn:
                yield turn
                yield self.env.timeout(tile.fetch)
            self.inputs.put(1)
            yield self.gemms.put(tile)

    def multiply(self) -> Process:
        while True:
            tile = yield self.gemms.get()
            yield self.env.timeout(tile.gemm)
            self.operands.put(1)
            if tile.last:
                yield self.stores.put(tile)

    def store(self) -> Process:
        while True:
            tile = yield self.stores.get()
            with self.tcm_port.request() as turn:
                yield turn
                yield self.env.timeout(tile.store)
            self.accumulators.put(1)
            yield self.writes.put(tile)

    def write(self) -> Process:
        while True:
            tile = yield self.writes.get()
            costs = tile.write
            yield self.env.timeout(costs.lead)
            self.incoming = incoming = IncomingBytes(self.chip, costs, *tile.written, self.env.now)
            yield self.env.timeout(costs.spread)
            self.incoming = None
            self.free = incoming.serve(incoming.nbytes, self.free)
            yield self.env.timeout(max(self.free - self.env.now, 0) + costs.tail)
            self.outputs.put(1)
            for _ in range(self.yields):
                yield self.env.timeout(0)


class IncomingBytes:
    """The bytes of a write of rows of *width* bytes, which come to the slice evenly from *since* on."""

    def __init__(self, chip: Chip, costs: Transfer, nbytes: int, width: int, since: int) -> None:
        self.chip, self.costs, self.nbytes, self.width = chip, costs, nbytes, width
        self.began = self.since = since
        self.handed = 0

    def interrupt(self, now: int, free: int) -> int:
        """When the slice is free for a read that comes at *now*, after the bytes that came before."""
        spread = self.costs.spread
        came = self.nbytes * (now - 1 - self.began) / spread if now > self.began else 0
        whole = int(came) - int(came) % self.width % self.chip.burst_nbytes
        if whole > self.handed:
            free = self.serve(whole, free)
            self.since = max(self.since, now - 1 - int((came - self.handed) * spread / self.nbytes))
        return free

    def serve(self, end: int, free: int) -> int:
        """When the slice is free after the bytes up to number *end*: part of a row, whole rows, part of a row."""
        free = max(free, self.since)
        while self.handed < end:
            within = self.handed % self.width
            rows = 0 if within else (end - self.handed) // self.width
            taken = rows * self.width if rows else min(self.width - within, end - self.handed)
            free += self.chip.slice_ps(taken)
            self.handed += taken
        return free


def slots(env: simpy.Environment, count: int) -> simpy.Container:
    return simpy.Container(env, capacity=count, init=count)


def main() -> None:
    pe = TextbookPe(Chip(), (1024, 1024, 1024), (128, 128, 128))
    start = time.perf_counter()
    latency = pe.run()
    rate = pe.n_stages / (time.perf_counter() - start)
    print(f"textbook SimPy, 1024^3 in 128^3 tiles: {latency / 1000:.3f} ns, {rate / 1e6:.3f} M stages/s")


if __name__ == "__main__":
    main()
