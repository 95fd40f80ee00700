"""The means of speed: parts of a run that are not simulated event by event, because they follow exactly from others.

Nothing outside of this room imports it by name: `kb_engine.engine.strategies` loads it where it is there. Without it
every event is simulated, and all results are the same.

`isolated` runs a command apart from all others where nothing can meet it, and gives its result to equal commands.
`replay` repeats programs of a grid without their kernel. `steady_state` skips tiles and programs that come in cycles.
"""

from __future__ import annotations

from kb_engine.fastforward.wing import Wing as fast_forward

__all__ = ["fast_forward"]
