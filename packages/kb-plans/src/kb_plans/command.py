"""The plan of any command for a PE."""

from __future__ import annotations

from msgspec.structs import replace

from kb_messages import (
    AtomicCommand,
    Command,
    DrainCommand,
    GemmCommand,
    LoadCommand,
    MathCommand,
    PipelinePlan,
    PlanError,
    StoreCommand,
    VectorCommand,
)
from kb_plans.accumulator import generate_drain_plan
from kb_plans.atomic import generate_atomic_plan
from kb_plans.gemm import generate_gemm_plan
from kb_plans.math import generate_math_plan
from kb_plans.tiles.room import TileRoom
from kb_plans.tiles.suggest import suggest_math_tile, suggest_tile
from kb_plans.tiles.tile_times import TileCosts
from kb_plans.transfer import generate_transfer_plan
from kb_plans.vectors.program import generate_vector_plan


def generate_plan(command: Command, pe: str, room: TileRoom, costs: TileCosts | None = None) -> PipelinePlan:
    """The plan of *command* for the PE *pe*.

    A tile that the command leaves open is suggested for *room* and *costs*.

    Raises PlanError when the command has no meaning, no tile fits, or a value has a wrong type.
    """
    if isinstance(command, GemmCommand):
        if command.tile is None:
            command = replace(command, tile=suggest_tile(command, room, costs))
        return generate_gemm_plan(command, pe)
    if isinstance(command, MathCommand):
        if command.tile is None:
            command = replace(command, tile=suggest_math_tile(command, room))
        return generate_math_plan(command, pe)
    if isinstance(command, AtomicCommand):
        return generate_atomic_plan(command, pe)
    if isinstance(command, DrainCommand):
        return generate_drain_plan(command, pe)
    if isinstance(command, VectorCommand):
        return generate_vector_plan(command, pe, room.register_nbytes)
    if isinstance(command, LoadCommand | StoreCommand):
        return generate_transfer_plan(command, pe)
    raise PlanError("plan", f"a value of type {type(command).__name__}", "a command")
