"""Rules of calls of `tl`: shapes, dtypes and known values of results.

Design: docs/design/kernel-language.md.
"""
