"""The columns of the tables of a log as numpy dtypes, and the error about a table with other columns."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kb_messages import LOG_TABLES, OPERAND_COLUMNS, OPS_COLUMNS

OPS_DTYPE: Final = np.dtype(list(OPS_COLUMNS))
OPERAND_DTYPE: Final = np.dtype(list(OPERAND_COLUMNS))
TABLE_DTYPES: Final = {name: np.dtype(list(schema.columns)) for name, schema in LOG_TABLES.items()}
"""The dtype of each auxiliary table, by name."""


_MOST_TEXT: Final = 400


def other_columns(found: np.dtype[Any], expected: np.dtype[Any]) -> tuple[str, str]:
    """Returns (got, needs) for an error: the columns of *found* and of *expected* that differ.

    A table has up to twenty columns, so the error names only the columns that differ.
    """
    descriptions = found.descr, expected.descr
    if sorted(map(str, descriptions[0])) == sorted(map(str, descriptions[1])):
        got, needs = (", ".join(each.names or ()) for each in (found, expected))
        return f"columns in the order {got}", f"the order {needs}"
    mine, others = ([each for each in own if each not in other] for own, other in (descriptions, descriptions[::-1]))
    if not mine:
        return f"no columns {others}", "these too"
    if not others:
        return f"further columns {str(mine)[:_MOST_TEXT]}", "none but those of the format"
    return f"columns {str(mine)[:_MOST_TEXT]}", f"columns {others}"
