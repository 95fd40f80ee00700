"""Tile plans of commands. All functions are pure: no clock, no arrays, no state; equal arguments give equal plans.

Design: docs/design/plans.md.
"""

from kb_plans.accumulator import generate_drain_plan
from kb_plans.atomic import ATOMIC_ARGUMENTS, generate_atomic_plan
from kb_plans.command import generate_plan
from kb_plans.counts import PlanCounts, ServiceKind, count, service_kinds
from kb_plans.epilogue import EPILOGUE_OPS
from kb_plans.gemm import generate_gemm_plan
from kb_plans.math import generate_math_plan
from kb_plans.tiles.estimate import Estimate, estimate
from kb_plans.tiles.room import TileRoom, TilesAtOnce
from kb_plans.tiles.suggest import suggest_math_tile, suggest_tile
from kb_plans.tiles.tile_times import StageTime, TileCosts
from kb_plans.tiles.waves import SUMS_NBYTES, ChipCosts, GemmSize, Waves, suggest_waves
from kb_plans.transfer import generate_transfer_plan
from kb_plans.vectors.program import generate_vector_plan

__all__ = [
    "ATOMIC_ARGUMENTS",
    "EPILOGUE_OPS",
    "SUMS_NBYTES",
    "ChipCosts",
    "Estimate",
    "GemmSize",
    "PlanCounts",
    "ServiceKind",
    "StageTime",
    "TileCosts",
    "TileRoom",
    "TilesAtOnce",
    "Waves",
    "__version__",
    "count",
    "estimate",
    "generate_atomic_plan",
    "generate_drain_plan",
    "generate_gemm_plan",
    "generate_math_plan",
    "generate_plan",
    "generate_transfer_plan",
    "generate_vector_plan",
    "service_kinds",
    "suggest_math_tile",
    "suggest_tile",
    "suggest_waves",
]

__version__ = "0.1.0"
