"""The name under which benchmark files have imported `Benchmark` so far; `kb_engine` has it too."""

from kb_engine.host.benchmark import Arrays, Benchmark

__all__ = ["Arrays", "Benchmark"]
