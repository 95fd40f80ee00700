"""The element types as numpy dtypes, and casts between them. `kb_dataexec` has both names too."""

from kb_dataexec.arrays.dtypes import cast, numpy_dtype

__all__ = ["cast", "numpy_dtype"]
