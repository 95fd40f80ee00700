"""What a GEMM may be asked for besides its operands and tile."""

from __future__ import annotations

from typing import TypedDict

from kb_messages import EpilogueOp, GemmCommand


class GemmOptions(TypedDict, total=False):
    """The keyword arguments that `generate_gemm_plan` and `suggest_tile` share; they mean what `GemmCommand` says."""

    a_pinned: bool
    b_pinned: bool
    out_pinned: bool
    transpose_a: bool
    transpose_b: bool
    b_stream: bool
    epilogue: tuple[EpilogueOp, ...]


def gemm_options(command: GemmCommand) -> GemmOptions:
    """The options of *command*."""
    return GemmOptions(
        a_pinned=command.a_pinned,
        b_pinned=command.b_pinned,
        out_pinned=command.out_pinned,
        transpose_a=command.transpose_a,
        transpose_b=command.transpose_b,
        b_stream=command.b_stream,
        epilogue=command.epilogue,
    )
