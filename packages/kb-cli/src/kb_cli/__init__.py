"""The command `kb`. `kb_cli.main` finds a command, and each command is one file of the room `commands`."""

__all__ = ["__version__"]

__version__ = "0.1.0"
