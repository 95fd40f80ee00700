"""The chip that a topology describes: its templates, and the graph of nodes, links and wires.

Design: docs/design/topology.md.
"""
