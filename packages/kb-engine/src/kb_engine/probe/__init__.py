"""Probes: latency and bandwidth between two nodes, simulated and in closed form.

Design: docs/design/link-sharing.md.
"""

from kb_engine.probe.all_pairs import NO_PATH, ProbeMatrix, probe_all
from kb_engine.probe.closed_form import Operation, Phase
from kb_engine.probe.probe import Probe, ProbeError, probe

__all__ = [
    "NO_PATH",
    "Operation",
    "Phase",
    "Probe",
    "ProbeError",
    "ProbeMatrix",
    "probe",
    "probe_all",
]
