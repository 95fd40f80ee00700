"""Host code around a launch: autotuning, heuristics, benchmarks, and the answers of the driver."""

from kb_triton.runtime.autotuner import Autotuner, Config, autotune
from kb_triton.runtime.driver import DRIVER, GPUTarget, Knobs
from kb_triton.runtime.heuristics import Heuristics, heuristics

__all__ = ["DRIVER", "Autotuner", "Config", "GPUTarget", "Heuristics", "Knobs", "autotune", "heuristics"]
