"""Plans of vector programs: whole values, strips of rows or columns, and pieces that carry sums along.

Design: docs/design/kernel-language.md.
"""
