"""Nodes that bytes pass through on their way."""
