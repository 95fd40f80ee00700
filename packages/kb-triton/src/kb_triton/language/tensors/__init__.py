"""Tensors of a kernel: element types, the values that elements have, pointers, and operators."""
