"""Functions of MATH, and the vector programs that apply several of them to values in registers.

Design: docs/design/kernel-language.md.
"""
