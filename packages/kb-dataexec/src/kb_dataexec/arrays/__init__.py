"""Arrays and dtypes: casts, the functions of MATH records in numpy, and work on several cores."""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_dataexec.arrays.dtypes import cast as cast
    from kb_dataexec.arrays.dtypes import numpy_dtype as numpy_dtype
    from kb_dataexec.arrays.functions import FUNCTIONS as FUNCTIONS
    from kb_dataexec.arrays.row_groups import RowGroups as RowGroups


_NAMES = {
    "kb_dataexec.arrays.dtypes": ("cast", "numpy_dtype"),
    "kb_dataexec.arrays.functions": ("FUNCTIONS",),
    "kb_dataexec.arrays.row_groups": ("RowGroups",),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
