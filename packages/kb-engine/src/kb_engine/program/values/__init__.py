"""Values of a kernel: tensors, handles of values in TCM, and integers that are known while the kernel runs.

Design: docs/design/kernel-language.md.
"""
