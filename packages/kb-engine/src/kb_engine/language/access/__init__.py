"""The bytes of a load, a store or an atomic: slices, masks, gathered elements, and the pieces of a transfer.

Design: docs/design/kernel-language.md.
"""
