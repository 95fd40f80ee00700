"""Fast-forward: skips the events of work that follows exactly from other work.

Design: docs/design/fast-forward.md

No room of the simulator imports this room by name: `kb_engine.engine.strategies` loads it where it is installed.
Without it every event is simulated, and all results are the same.

`isolated` runs a command apart from all others where nothing can meet it, and gives its result to equal commands.
`replay` repeats programs of a grid without their kernel. `steady_state` skips tiles and programs in periods.
"""

from __future__ import annotations

from kb_engine.fastforward.wing import Wing as fast_forward

__all__ = ["fast_forward"]
