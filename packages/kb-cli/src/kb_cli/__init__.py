"""The command `kb`. `kb_cli.entry` begins, and `kb_cli.main` finds a command: a file of the room `commands`."""

__all__ = ["__version__"]

__version__ = "0.1.0"
