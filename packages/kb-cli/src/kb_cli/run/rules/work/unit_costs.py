"""The pure cost functions of the blocks of a chip, as rules ask for them."""

from __future__ import annotations

from typing import Final

from kb_cli.run.rules.work.op_sums import OpSum
from kb_dataexec.files import json_decoder
from kb_engine import Host
from kb_messages import GemmAttributes, KbError, MathAttributes, Role, StageParams

_decode_gemm: Final = json_decoder(GemmAttributes)
_decode_math: Final = json_decoder(MathAttributes)


def service_ps(host: Host, component: str, params: StageParams) -> int | None:
    """Picoseconds that the block *component* of the chip of *host* needs for *params*.

    None for a block whose cost is not pure, or that refuses *params*: nothing is known of such a block.
    """
    block = host.engine.components.get(component)
    if block is None or not block.has_pure_cost:
        return None
    try:
        return block.service_ps(params)
    except (KbError, NotImplementedError):
        return None


def gemm_attributes(op: OpSum) -> GemmAttributes:
    """The attributes of a GEMM in the log."""
    return _decode_gemm(op.params)


def math_attributes(op: OpSum) -> MathAttributes:
    """The attributes of a math function in the log."""
    return _decode_math(op.params)


GEMM_ROLES: Final = (Role.A, Role.B, Role.OUT)
MATH_ROLES: Final = (Role.IN, Role.OUT)
