"""The source of a kernel: its lines, mistakes of its author, and errors that name both.

Design: docs/design/kernel-language.md.
"""
