"""The built-in hardware blocks, found through the `kb.components` entry points like anyone's."""

__all__ = ["__version__"]

__version__ = "0.1.0"
