"""Perfetto traces, made from the op log of a run."""
