"""Writes a log in chunks, and matches the text of a whole error."""

import re

import numpy as np
import pytest

from kb_messages import LogError


def write_in_chunks(writer, log, cuts):
    for text in log.strings:
        writer.intern(text)
    writer.immediate(log.immediates)
    for low, high in zip([0, *cuts], [*cuts, log.n_ops], strict=True):
        ops = log.ops[low:high]
        writer.append(ops, log.operands[np.isin(log.operands["op_id"], ops["op_id"])])
    return writer.close()


def expect(text):
    return pytest.raises(LogError, match=f"^{re.escape(str(text))}$")
