"""Dtypes as numpy has them, and casts between them."""

from kb_dataexec.arrays.dtypes import cast, numpy_dtype

__all__ = ["cast", "numpy_dtype"]
