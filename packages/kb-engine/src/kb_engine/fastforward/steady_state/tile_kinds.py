"""TileKinds: tiles of one kind take equal times on their path.

Design: docs/design/steady-state.md
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kb_messages import PipelinePlan, StageType, memory_side


class TileKinds:
    """The kinds of the tiles of *plan*, numbered in the order in which they are fed.

    A tile's kind says whether it lies at a ragged edge, which stages it has, and at which byte of a burst of
    *burst_nbytes* its writes begin. Addresses do not matter otherwise.
    """

    def __init__(self, plan: PipelinePlan, burst_nbytes: int) -> None:
        self._k_grid = plan.grid[2]
        self._n_tiles = plan.n_tiles
        self._inner = plan.loop_order.outer_first(*plan.grid[:2])[1]
        self._outputs = _outputs(plan, burst_nbytes)
        self._changes: dict[int, npt.NDArray[np.int64]] = {}

    @property
    def k_grid(self) -> int:
        """The number of tiles along K."""
        return self._k_grid

    def begins_output(self, tile: int) -> bool:
        """Whether *tile* is the first one of its output tile."""
        return tile % self._k_grid == 0

    def begins_row(self, tile: int) -> bool:
        """Whether *tile* is the first one of a turn of the outer loop."""
        return tile % (self._k_grid * self._inner) == 0

    def of(self, tile: int) -> tuple[int, int]:
        """Returns the kind of *tile*: the kind of its output tile, and whether it is first, last or in between along
        K."""
        output, k = divmod(tile, self._k_grid)
        return int(self._outputs[output]), 2 * (k == 0) + (k == self._k_grid - 1)

    def n_periodic(self, made: int, period: int) -> int:
        """Returns how many tiles from number *made* on have the kind of the tile *period* tiles before."""
        output, k = divmod(made, self._k_grid)
        if period % self._k_grid:
            return max(0, self._k_grid - 1 - k) if k > period else 0
        changes = self._changes_at(period // self._k_grid)
        after = np.searchsorted(changes, output)
        limit = int(changes[after]) * self._k_grid if after < len(changes) else self._n_tiles
        return max(0, limit - made)

    def _changes_at(self, lag: int) -> npt.NDArray[np.int64]:
        """Returns, in order, the output tiles whose kind differs from the output tile *lag* before."""
        known = self._changes.get(lag)
        if known is None:
            kinds = self._outputs
            found: npt.NDArray[np.int64] = np.flatnonzero(kinds[lag:] != kinds[:-lag]).astype(np.int64)
            known = self._changes[lag] = found + lag
        return known


def _outputs(plan: PipelinePlan, burst_nbytes: int) -> npt.NDArray[np.int64]:
    """Returns a number for the kind of each output tile."""
    m_grid, n_grid, _ = plan.grid
    inner_grid = plan.loop_order.outer_first(m_grid, n_grid)[1]
    outer, inner = np.divmod(np.arange(m_grid * n_grid, dtype=np.int64), inner_grid)
    m, n = plan.loop_order.outer_first(outer, inner)
    kinds: npt.NDArray[np.int64] = 2 * (m == m_grid - 1).astype(np.int64) * _is_ragged(plan, 0)
    kinds += (n == n_grid - 1).astype(np.int64) * _is_ragged(plan, 1)
    if plan.has_panels:
        kinds = kinds * 4 + 2 * (inner == 0) + (inner == inner_grid - 1)
    for stage in plan.stages:
        if stage.stage_type is StageType.DMA_WRITE:
            side = memory_side(stage)
            at = np.full(m_grid * n_grid, side.base % burst_nbytes, dtype=np.int64)
            for axis, step in ((side.rows, side.stride), (side.cols, side.dtype.nbytes)):
                if axis.dimension is not None:
                    at += (m, n, np.zeros_like(m))[axis.dimension] * axis.tile * step
            kinds = kinds * burst_nbytes + at % burst_nbytes
    return kinds


def _is_ragged(plan: PipelinePlan, dimension: int) -> bool:
    sides = (side for stage in plan.stages for each in stage.operands for side in (each.rows, each.cols))
    return any(side.dimension == dimension and side.total % side.tile for side in sides)
