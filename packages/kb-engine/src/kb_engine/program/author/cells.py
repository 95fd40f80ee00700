"""Names of the cells of a notebook: `In[3]`, as IPython shows them, in place of the file that IPython compiles."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def cell_name(filename: str) -> str:
    """The name of the notebook cell that was compiled as *filename*: `In[3]` for the third cell that ran.

    The name is "" for every other file. It has neither the process nor the hash that IPython puts into *filename*, so
    the same cells give the same names in another session. Cells of equal text share a file, and have the number of the
    last one that ran.
    """
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", None)
    found = None if name_of is None else name_of(filename)
    return "" if found is None else str(found[1])


def file_name(filename: str) -> str:
    """The name of a source file in kernel lines: that of its notebook cell, or else the last part of its path."""
    return cell_name(filename) or Path(filename).name
