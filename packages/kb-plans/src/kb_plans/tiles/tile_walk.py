"""The walk of a plan's tiles through a PE: the begin of each stage, by a recurrence from tile to tile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from kb_messages import PipelinePlan, StageType
from kb_plans.tiles.room import TileRoom
from kb_plans.tiles.tile_times import SumKind, TileCosts, TileKind, TileTimes
from kb_plans.tiles.walk_parts import LeavingTile, MemoryInTurn, TilePlaces, TileWay, WalkStep, together

_MOST_AHEAD: Final = 6
"""Tiles in two blocks and the queue between them, at most. Source: assumed: a queue of 4, as in the bundled chips."""
_MOST_STATES: Final = 64
"""The repetitions that are walked one by one where no state returns. Then the last half of them counts as a period."""
_READ, _WRITE = StageType.DMA_READ, StageType.DMA_WRITE
_LEAVING: Final = (StageType.MATH, StageType.STORE, StageType.DMA_WRITE)
"""The stages, in order, with which a tile may leave. A tile that leaves waits for its turns while others come."""
_MAY_COME_FIRST: Final = (3, 2, 1, 0, 0, 0)
"""The number of stages of `_LEAVING` that may be served before a stage of a coming tile, by the type of that stage.

They come first only if they are ready before it. The walk follows one tile after the other, so a tile is fetched before
the next one is read. A write that is ready before the fetch may still be behind that read.
"""


class TileWalk:
    """Follows the tiles of *times* through a PE with *room* for them.

    The stages of a type serve tiles in order, as many at a time as `holds_ps` fits into `alone_ps`. A tile waits for
    ports, for places in buffers and registers, and for bytes that come to its memory before its own. Left out are the
    depths of queues, and lookups of pages, rows and banks.

    Where the state of the PE returns, the repetitions that are left take as long as the repetitions before, and the
    walk passes over them in one step. So the walk takes as long for many tiles as for few.
    """

    def __init__(self, times: TileTimes, room: TileRoom) -> None:
        plan = times.plan
        self._times, self._has_panels = times, plan.has_panels
        self._blocks = [TilePlaces(count, each) for count, each in zip(_at_once(times), StageType, strict=True)]
        self._ports = _ports(times.costs)
        self._port_free = [0] * len(times.costs.turns)
        fit = room.at_once(plan.buffers)
        most = _MOST_AHEAD + self._blocks[_READ].count - 1
        counts = [min(count or 0, most) for count in fit]
        self._inputs, self._outputs = TilePlaces(counts[0], StageType.FETCH), TilePlaces(counts[1], StageType.DMA_WRITE)
        self._registers, self._sums = TilePlaces(counts[2], StageType.MATH), TilePlaces(counts[3], StageType.STORE)
        self._pieces = TilePlaces(_panel_pieces(plan, room), StageType.FETCH)
        self._slots = [self._inputs, self._outputs, self._registers, self._sums, self._pieces, *self._blocks]
        self._read_memory = MemoryInTurn()
        self._write_memory = self._read_memory if times.shares_memory else MemoryInTurn()
        self._memories = {self._read_memory, self._write_memory}
        self._leaving: dict[StageType, deque[LeavingTile]] = {each: deque() for each in _LEAVING}
        self._writing: LeavingTile | None = None
        self._first = self._blocks[plan.stages[0].stage_type]
        self._n_leaving = self._fed_ps = self._end_ps = 0
        self._ways: dict[tuple[int, bool], TileWay] = {}

    def latency_ps(self) -> int:
        """The time from the first stage of the first tile to the end of the last one.

        Call it once: the walk changes the state.
        """
        plan = self._times.plan
        inner_grid = plan.loop_order.outer_first(*plan.grid[:2])[1]
        rows: dict[int, list[SumKind]] = {}
        for each in self._times.sums:
            rows.setdefault(each.outer, []).append(each)
        for row in rows.values():
            n_rows = sum(each.n_sums for each in row) // inner_grid
            self._repeat(n_rows, partial(self._walk_row, row, n_rows))
        while self._n_leaving:
            self._serve_for(_WRITE)
        return self._end_ps

    def _walk_row(self, row: list[SumKind], n_rows: int) -> None:
        """Follows the output tiles along the inner loop. The last one frees the panel."""
        for each in row:
            frees_panel = self._has_panels and each is row[-1]
            self._repeat(each.n_sums // n_rows - frees_panel, partial(self._walk_sum, each))
            if frees_panel:
                self._walk_sum(each, frees_panel=True)

    def _walk_sum(self, each: SumKind, frees_panel: bool = False) -> None:
        """Follows the tiles of an output tile."""
        for kind in each.tiles:
            way = self._ways.get((id(kind), frees_panel))
            if way is None:
                way = self._ways[id(kind), frees_panel] = self._way(each, kind, frees_panel)
            self._repeat(kind.n_tiles // each.n_sums, partial(self._walk_tile, way))

    def _repeat(self, count: int, walk: Callable[[], None]) -> None:
        """Walks *count* times, as far as the walks differ."""
        seen: dict[tuple[int, ...], tuple[int, int]] = {}
        states: list[tuple[int, int]] = []
        done = 0
        while done < count:
            walk()
            done += 1
            # At most one repetition is left, so there is nothing to skip.
            if count - done < 2:
                continue
            state, now_ps = self._state()
            before = seen.get(state)
            states.append((done, now_ps))
            # No state has returned: take the last half of the repetitions as a period, which is an approximation.
            if before is None and len(states) == _MOST_STATES:
                before = states[_MOST_STATES // 2]
            if before is None:
                seen[state] = done, now_ps
            else:
                period = done - before[0]
                n_periods = (count - done) // period
                self._shift(n_periods * (now_ps - before[1]))
                done += n_periods * period
                seen.clear()
                states.clear()

    def _state(self) -> tuple[tuple[int, ...], int]:
        """The state that decides the times of later tiles, and the moment to which its times are relative.

        Times before the moment count as the moment.
        """
        now_ps = self._fed_ps
        if self._first.free_at:
            now_ps = max(now_ps, self._first.free_at[0])
        for queue in self._leaving.values():
            if queue and queue[0].ready_ps < now_ps:
                now_ps = queue[0].ready_ps
        write = self._write_memory.write
        if write is not None:
            now_ps = min(now_ps, write[0])
        times = [self._fed_ps, self._read_memory.free_ps, self._write_memory.free_ps, *self._port_free]
        for slots in self._slots:
            times += slots.free_at
        # To be free before now is to be free now.
        state = [each - now_ps if each > now_ps else 0 for each in times]
        state += [len(slots.free_at) for slots in self._slots]
        for queue in self._leaving.values():
            for ready_ps, steps, at in queue:
                state += (ready_ps - now_ps, id(steps), at)
            # -1 ends a queue, so that two queues cannot look like one longer queue.
            state.append(-1)
        if write is not None and self._writing is not None:
            state += (write[0] - now_ps, *write[1:], id(self._writing.steps))
        return tuple(state), now_ps

    def _shift(self, by_ps: int) -> None:
        """Moves all times later by *by_ps*."""
        self._fed_ps += by_ps
        self._end_ps += by_ps
        self._port_free = [each + by_ps for each in self._port_free]
        for slots in self._slots:
            slots.shift(by_ps)
        for queue in self._leaving.values():
            for at, (ready_ps, steps, step) in enumerate(queue):
                queue[at] = LeavingTile(ready_ps + by_ps, steps, step)
        for memory in self._memories:
            memory.shift(by_ps)

    def _walk_tile(self, way: TileWay) -> None:
        """Follows the next tile to its computation, or to the stage with which it begins to leave."""
        ready_ps = self._fed_ps = self._claimed(way.claims[0], self._fed_ps)
        for at, (stage_type, enters, port, alone_ps, holds_ps, memory_ps, frees) in enumerate(way.come):
            if enters is not None:
                free_ps = enters.free_at.popleft()
                if free_ps > ready_ps:
                    ready_ps = free_ps
            before_ps = ready_ps
            if at == way.claims_at:
                # Whoever waits for registers gets them before the tile that frees them asks for its next stage.
                ready_ps = self._claimed(way.claims[1], ready_ps)
                before_ps = max(before_ps, ready_ps - 1)
            if self._n_leaving:
                self._serve_until(before_ps, _MAY_COME_FIRST[stage_type])
            if port >= 0:
                if self._port_free[port] > ready_ps:
                    ready_ps = self._port_free[port]
                self._port_free[port] = ready_ps + holds_ps
            if stage_type is _READ:
                ready_ps = self._read_memory.read(ready_ps, memory_ps)
            ready_ps += alone_ps
            for slots in frees:
                slots.free_at.append(ready_ps)
        if way.leave:
            self._n_leaving += 1
            self._leaving[way.leave[0].stage_type].append(LeavingTile(ready_ps, way.leave, 0))
        elif ready_ps > self._end_ps:
            self._end_ps = ready_ps

    def _claimed(self, claims: tuple[TilePlaces, ...], ready_ps: int) -> int:
        """The time at which a tile that is ready at *ready_ps* has one of each of *claims*."""
        for slots in claims:
            while not slots.free_at:
                self._serve_for(slots.freed_by)
            free_ps = slots.free_at.popleft()
            if free_ps > ready_ps:
                ready_ps = free_ps
        return ready_ps

    def _serve_until(self, now_ps: int, n_types: int) -> None:
        """Serves the leaving tiles that are ready by *now_ps*, with the first *n_types* of their stages."""
        for stage_type in _LEAVING[:n_types]:
            queue = self._leaving[stage_type]
            while queue and self._asks_ps(queue[0]) <= now_ps:
                if stage_type is _WRITE and not self._is_written(now_ps):
                    return
                self._serve(stage_type)
        if n_types == len(_LEAVING):
            self._is_written(now_ps)

    def _asks_ps(self, tile: LeavingTile) -> int:
        """The time at which *tile*, the first of its queue, asks for its port or its memory, as far as it is known."""
        enters = tile.steps[tile.at].enters
        return max(tile.ready_ps, enters.free_at[0]) if enters is not None and enters.free_at else tile.ready_ps

    def _is_written(self, now_ps: int) -> bool:
        """Whether no bytes of a write are on their way at *now_ps*."""
        write = self._write_memory.write
        if write is None:
            return True
        if write[0] + write[1] > now_ps:
            return False
        self._end_write()
        return True

    def _serve_for(self, stage_type: StageType) -> None:
        """Serves the tile that next comes to the end of *stage_type*, or a tile before it.

        No other comes in between.
        """
        if stage_type is _WRITE and self._writing is not None:
            self._end_write()
            return
        before = _LEAVING[: _LEAVING.index(stage_type) + 1]
        self._serve(next(each for each in reversed(before) if self._leaving[each]))

    def _serve(self, stage_type: StageType) -> None:
        """Serves the first of the tiles that wait for *stage_type*.

        If that stage is a write, no other write is under way.
        """
        tile = self._leaving[stage_type].popleft()
        step = tile.steps[tile.at]
        begin_ps = tile.ready_ps
        if step.enters is not None:
            begin_ps = max(begin_ps, step.enters.free_at.popleft())
        if step.port >= 0:
            begin_ps = max(begin_ps, self._port_free[step.port])
            self._port_free[step.port] = begin_ps + step.holds_ps
        if stage_type is _WRITE:
            self._write_memory.begin_write(begin_ps, step.memory_ps)
            self._writing = tile
        else:
            self._served(tile, begin_ps)

    def _end_write(self) -> None:
        """Ends the write that is under way: no other request comes before its last byte."""
        tile = self._writing
        assert tile is not None
        self._writing = None
        self._served(tile, self._write_memory.end_write() - tile.steps[tile.at].memory_ps)

    def _served(self, tile: LeavingTile, begin_ps: int) -> None:
        """Ends the service of *tile* that began at *begin_ps*: the tile waits for its next stage, or is done."""
        ready_ps = begin_ps + tile.steps[tile.at].alone_ps
        for slots in tile.steps[tile.at].frees:
            slots.free_at.append(ready_ps)
        at = tile.at + 1
        if at == len(tile.steps):
            self._n_leaving -= 1
            self._end_ps = max(self._end_ps, ready_ps)
            return
        step, behind = tile.steps[at], LeavingTile(ready_ps, tile.steps, at)
        queue = self._leaving[step.stage_type]
        if step.enters is None:
            # A stage of the same block goes on with the same tile: no other tile of the queue comes before it.
            queue.appendleft(behind)
        else:
            queue.append(behind)

    def _way(self, each: SumKind, kind: TileKind, frees_panel: bool) -> TileWay:
        """The way of the tiles of *kind* in an output tile *each*.

        With *frees_panel*, no later tile needs the panel.
        """
        layout, types = kind.layout, kind.layout.types
        is_first_k, is_last_k = kind is each.tiles[0], kind is each.tiles[-1]
        ends = (
            (self._inputs, layout.fetched, True),
            (self._pieces, layout.fetched, frees_panel),
            (self._registers, layout.computed, True),
            (self._sums, layout.stored, True),
            (self._outputs, len(types), is_last_k),
        )
        steps: list[WalkStep] = []
        claims_at = n_come = 0
        for at, (stage_type, time) in enumerate(zip(types, kind.times, strict=True)):
            block = self._blocks[stage_type]
            frees = tuple([slots for slots, end, counts in ends if at + 1 == end and counts and slots.count])
            stays = steps and steps[-1].stage_type is stage_type
            if stays:
                steps[-1] = steps[-1]._replace(frees=tuple([slots for slots in steps[-1].frees if slots is not block]))
            step = WalkStep(stage_type, None if stays else block, self._ports[stage_type], *time, (*frees, block))
            # A block for several tiles serves another tile between two stages of this one, so both stages are one step.
            if stays and block.count > 1:
                steps[-1] = together(steps[-1], step)
            else:
                steps.append(step)
            claims_at = len(steps) - 1 if at == layout.claims else claims_at
            n_come = n_come if stage_type in _LEAVING else len(steps)
        fed = _needed((self._inputs, True), (self._pieces, each.inner == 0), (self._outputs, is_last_k))
        claimed = _needed((self._registers, True), (self._sums, is_first_k))
        if claims_at >= n_come:
            fed, claimed = fed + claimed, ()
        return TileWay(tuple(steps[:n_come]), tuple(steps[n_come:]), (fed, claimed), claims_at)


def _at_once(times: TileTimes) -> list[int]:
    """The number of tiles that the stages of each type serve at a time."""
    counts = [1] * len(StageType)
    for kind in (kind for each in times.sums for kind in each.tiles):
        for stage_type, time in zip(kind.layout.types, kind.times, strict=True):
            if time.holds_ps and time.alone_ps > counts[stage_type] * time.holds_ps:
                counts[stage_type] = -(-time.alone_ps // time.holds_ps)
    return counts


def _ports(costs: TileCosts) -> list[int]:
    """The number of the group of `turns` of each type; -1 for types that wait for no other type."""
    numbers = {each: number for number, turn in enumerate(costs.turns) for each in turn}
    return [numbers.get(each, -1) for each in StageType]


def _needed(*slots: tuple[TilePlaces, bool]) -> tuple[TilePlaces, ...]:
    return tuple([each for each, is_claimed in slots if is_claimed and each.count])


def _panel_pieces(plan: PipelinePlan, room: TileRoom) -> int:
    """The pieces of panels that fit at once: all of one panel, and one of the next panel if there is room for it."""
    if not plan.has_panels:
        return 0
    needs, k_grid = plan.buffers, plan.grid[2]
    return k_grid + (needs.least_input_nbytes + needs.panel_nbytes // k_grid <= room.input_nbytes)
