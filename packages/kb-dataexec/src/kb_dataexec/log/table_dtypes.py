"""The columns of a log's tables as numpy dtypes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kb_messages import LOG_TABLES, OPERAND_COLUMNS, OPS_COLUMNS

OPS_DTYPE: Final = np.dtype(list(OPS_COLUMNS))
OPERAND_DTYPE: Final = np.dtype(list(OPERAND_COLUMNS))
TABLE_DTYPES: Final = {name: np.dtype(list(schema.columns)) for name, schema in LOG_TABLES.items()}
"""The columns of each further table, by its name."""


_MOST_TEXT: Final = 400


def other_columns(found: np.dtype[Any], expected: np.dtype[Any]) -> tuple[str, str]:
    """What an error says that it got and that it needs: the columns of *found* and of *expected* that differ.

    A table has up to twenty columns, among which a reader would have to look for the one that is wrong.
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
