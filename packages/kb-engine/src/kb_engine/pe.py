"""A processing element as the engine sees it: its CPU, its scheduler and the memories inside."""

from __future__ import annotations

from typing import Any

from kb_engine.allocator import Allocator
from kb_engine.component import ComponentBase
from kb_engine.roles import CommandIssuer, CommandScheduler
from kb_messages.address import OFFSET_BITS
from kb_messages.errors import TopologyError


class ProcessingElement:
    """The blocks of one PE that the engine talks to."""

    def __init__(self, pe_id: str, blocks: list[ComponentBase[Any]], tcm: tuple[int, int], reg_owner: int) -> None:
        self.pe_id = pe_id
        self.cpu: CommandIssuer[Any] = _one(pe_id, blocks, CommandIssuer)
        self.scheduler: CommandScheduler[Any] = _one(pe_id, blocks, CommandScheduler)
        self.tcm_owner, self.tcm_nbytes = tcm
        self.reg_owner = reg_owner
        reserved = self.scheduler.reserved_nbytes
        if reserved > self.tcm_nbytes:
            raise TopologyError(
                self.scheduler.node_id,
                f"tile buffers of {reserved} bytes",
                f"at most the {self.tcm_nbytes} bytes of {pe_id}.pe_tcm",
                "use a smaller input_kib or output_kib",
            )

    def new_allocator(self) -> Allocator:
        """The part of the TCM that kernels allocate from; the scheduler's tile buffers are not in it."""
        reserved = self.scheduler.reserved_nbytes
        base = (self.tcm_owner << OFFSET_BITS) + reserved
        return Allocator(f"{self.pe_id}.pe_tcm", base, self.tcm_nbytes - reserved)


def _one(pe_id: str, blocks: list[ComponentBase[Any]], role: type[Any]) -> Any:
    found = [block for block in blocks if isinstance(block, role)]
    if len(found) != 1:
        raise TopologyError(pe_id, f"{len(found)} blocks that are a {role.__name__}", "one in pe_template")
    return found[0]
