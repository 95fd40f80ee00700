"""Names of memories, for logs, which have only their numbers."""

from __future__ import annotations

from kb_messages import SPACE_BY_CODE


def memory_name(owner: int) -> str:
    """Returns the name of memory number *owner*, such as `sip0.die1.tcm3`. Number 0 is the log's immediates."""
    space = SPACE_BY_CODE.get(owner >> 10 & 15)
    if owner == 0 or space is None:
        return "immediates" if owner == 0 else f"owner {owner:#x}"
    return f"sip{owner >> 22}.die{owner >> 14 & 255}.{space}{owner & 1023}"
