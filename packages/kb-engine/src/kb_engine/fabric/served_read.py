"""ServedRead: a read whose memory has begun with it, as the op log's table `transfers` sees it."""

from __future__ import annotations

from typing import TypeAlias

ServedRead: TypeAlias = tuple[int, int, int, int, int]
"""Its op, the op that it stands behind, and three times: when its bytes begin to hold the memory (-1 if the memory does
not say), and when the first and the last of them leave.
"""
