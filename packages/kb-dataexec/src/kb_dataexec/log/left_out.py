"""LeftOut: what a reader of a log does without."""

from collections.abc import Callable
from typing import TypeAlias

LeftOut: TypeAlias = Callable[[int, int], bool]
"""Whether nobody needs a chunk whose records came between two times, both included."""
