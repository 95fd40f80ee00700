"""Completion of command lines when a user presses TAB. Nothing heavy is imported, and no file of a user is run."""

from kb_cli.completion.shells import VARIABLE, completed

__all__ = ["VARIABLE", "completed"]
