"""ServedRead: a read whose memory has begun with it, as the op log's table `transfers` sees it."""

from __future__ import annotations

from typing import TypeAlias

ServedRead: TypeAlias = tuple[int, int, tuple[int, int] | None, int, int]
"""Its op, the op that it stands behind, when its bytes hold the memory, and when the first and the last leave it."""
