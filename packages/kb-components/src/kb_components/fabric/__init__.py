"""Nodes that forward transfers."""
