"""The command `kb`. `kb_cli.main` is its door; each command is one file."""

__all__ = ["__version__"]

__version__ = "0.1.0"
