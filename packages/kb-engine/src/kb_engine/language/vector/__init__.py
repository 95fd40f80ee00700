"""Vector programs: chains of math that `tl` records and issues as one command.

Design: docs/design/kernel-language.md.
"""
