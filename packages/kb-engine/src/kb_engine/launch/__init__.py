"""How a launch travels from the host to every PE, and how the answers return."""

from kb_engine.launch.launch import LaunchResult, ProgramTimes

__all__ = [
    "LaunchResult",
    "ProgramTimes",
]
