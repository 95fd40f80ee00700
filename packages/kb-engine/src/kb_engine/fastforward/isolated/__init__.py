"""Isolated commands: nothing can meet them, so each kind runs once on a heap of its own and its result is reused."""
