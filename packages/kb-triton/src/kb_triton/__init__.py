"""Unmodified Triton kernels on simulated chips. It is a pytest plugin, too: `pytest -p kb_triton`."""

from kb_triton.benchmark_launch import launch
from kb_triton.host import Device, Options, address, current, use
from kb_triton.jit import JITFunction, jit
from kb_triton.pytest_plugin import (
    pytest_addoption,
    pytest_configure,
    pytest_load_initial_conftests,
    pytest_report_header,
    pytest_terminal_summary,
    pytest_unconfigure,
)
from kb_triton.shims import install, uninstall

__version__ = "0.1.0"

__all__ = [
    "Device",
    "JITFunction",
    "Options",
    "address",
    "current",
    "install",
    "jit",
    "launch",
    "pytest_addoption",
    "pytest_configure",
    "pytest_load_initial_conftests",
    "pytest_report_header",
    "pytest_terminal_summary",
    "pytest_unconfigure",
    "uninstall",
    "use",
]
