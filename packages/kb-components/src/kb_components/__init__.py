"""The built-in hardware blocks. The engine finds them by `kb.components` entry points, in the same way as any block."""

__all__ = ["__version__"]

__version__ = "0.1.0"
