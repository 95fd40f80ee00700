"""Launches: from the host to every PE, and the answers back."""

from kb_engine.launch.launch import LaunchResult, ProgramTimes

__all__ = [
    "LaunchResult",
    "ProgramTimes",
]
