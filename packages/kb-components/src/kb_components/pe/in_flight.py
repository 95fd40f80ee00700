"""PE_SCHEDULER's in-flight table, and what its feeder waits for."""

from __future__ import annotations

from collections.abc import Callable

from kb_engine.block import KIB, CommandInFlight, FeederWait, Region, TileToken
from kb_messages import DispatchWait, StageType


class InFlight:
    """A command from its submission to its completion, and when the scheduler took it, decoded it and began to feed."""

    __slots__ = ("context", "t_decoded_ps", "t_fed_ps", "t_taken_ps")

    def __init__(self, context: CommandInFlight) -> None:
        self.context = context
        self.t_taken_ps = self.t_decoded_ps = self.t_fed_ps = 0

    def dispatch_waits(
        self, turn_ps: int, in_order_ps: int, claimed_ps: int, now_ps: int
    ) -> list[tuple[DispatchWait, int]]:
        """Until when a tile that is dispatched now waited for each thing: it was the tile's turn from *turn_ps* on,
        those it must not overtake were fetched at *in_order_ps*, and it had its buffers at *claimed_ps*."""
        return [
            (DispatchWait.SUBMISSION_QUEUE, self.t_taken_ps),
            (DispatchWait.DECODE, self.t_decoded_ps),
            (DispatchWait.EARLIER_COMMANDS, self.t_fed_ps),
            (DispatchWait.EARLIER_TILES, turn_ps),
            (DispatchWait.FETCH_ORDER, in_order_ps),
            (DispatchWait.TILE_BUFFER, claimed_ps),
            (DispatchWait.QUEUE_FULL, now_ps),
        ]


def wait_for_fetches(token: TileToken, since_ps: int) -> FeederWait:
    """*token* starts with its fetch, and tiles fed before it have yet to be fetched."""

    def has_yet_to_fetch(_: TileToken, ahead: frozenset[StageType]) -> bool:
        return StageType.FETCH in ahead

    return FeederWait(token, since_ps, needs="the tiles before it to be fetched", held_by=has_yet_to_fetch)


def wait_for_buffer(node_id: str, token: TileToken, since_ps: int, inputs: Region, outputs: Region) -> FeederWait:
    """*token* has no input buffer, or an input buffer and no output buffer."""
    name, last, region = "input", StageType.FETCH, inputs
    slots = token.context.placement.input
    if slots is None or inputs.is_free(slots.offset(token.tile.tile_id), slots.nbytes):
        name, last, region = "output", StageType.DMA_WRITE, outputs
        slots = token.context.placement.output
    assert slots is not None
    nbytes = (slots.count + 1) * slots.nbytes
    return FeederWait(
        token,
        since_ps,
        needs=f"an {name} buffer of {node_id}",
        held_by=_has_ahead(last),
        change=f"{name}_kib of {node_id} from {region.nbytes // KIB} to {-(-nbytes // KIB)} may break it",
    )


def _has_ahead(stage_type: StageType) -> Callable[[TileToken, frozenset[StageType]], bool]:
    return lambda _, ahead: stage_type in ahead
