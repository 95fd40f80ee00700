"""The means of speed: parts of a run that are not simulated event by event, because they follow exactly from others.

Nothing outside of this room imports it by name: `kb_engine.engine.fast_forward` loads it where it is there. Without it
every event is simulated, and all results are the same.
"""
