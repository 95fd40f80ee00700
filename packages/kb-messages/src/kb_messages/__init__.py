"""The vocabulary all kernbench packages share: structs only, no behaviour that needs a clock or an array."""

__all__ = ["__version__"]

__version__ = "0.1.0"
