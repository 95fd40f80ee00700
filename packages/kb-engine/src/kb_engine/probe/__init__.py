"""Latency and bandwidth between two nodes, simulated and in closed form."""

from kb_engine.probe.all_pairs import NO_PATH, Matrix, probe_all
from kb_engine.probe.probe import Operation, Phase, Probe, ProbeError, probe

__all__ = [
    "NO_PATH",
    "Matrix",
    "Operation",
    "Phase",
    "Probe",
    "ProbeError",
    "probe",
    "probe_all",
]
