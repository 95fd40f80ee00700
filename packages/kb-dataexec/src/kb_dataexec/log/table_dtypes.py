"""The columns of a log's tables as numpy dtypes."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_messages import LOG_TABLES, OPERAND_COLUMNS, OPS_COLUMNS

OPS_DTYPE: Final = np.dtype(list(OPS_COLUMNS))
OPERAND_DTYPE: Final = np.dtype(list(OPERAND_COLUMNS))
TABLE_DTYPES: Final = {name: np.dtype(list(schema.columns)) for name, schema in LOG_TABLES.items()}
"""The columns of each further table, by its name."""
