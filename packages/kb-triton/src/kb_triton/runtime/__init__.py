"""What stands around a kernel's launch: configurations and their choice, heuristics, and the driver's answers."""

from kb_triton.runtime.autotuner import Autotuner, Config, autotune
from kb_triton.runtime.driver import DRIVER, GPUTarget, Knobs
from kb_triton.runtime.heuristics import Heuristics, heuristics

__all__ = ["DRIVER", "Autotuner", "Config", "GPUTarget", "Heuristics", "Knobs", "autotune", "heuristics"]
