"""The parts of PE_SCHEDULER: its queue of commands, their plans, the tile buffers, and the feeder of tiles.

Design: docs/design/processing-element.md.
"""
