"""The simulation engine: clock, blocks, queues, fabric, kernels, op log, host."""

__all__ = ["__version__"]

__version__ = "0.1.0"
