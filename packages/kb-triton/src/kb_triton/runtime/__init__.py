"""What stands around a kernel's launch: configurations and their choice, heuristics, and the driver's answers."""

from kb_triton.runtime.autotuner import Autotuner, autotune
from kb_triton.runtime.config import Config
from kb_triton.runtime.driver import DRIVER, GPUTarget
from kb_triton.runtime.heuristics import Heuristics, heuristics
from kb_triton.runtime.knobs import Knobs

__all__ = ["DRIVER", "Autotuner", "Config", "GPUTarget", "Heuristics", "Knobs", "autotune", "heuristics"]
