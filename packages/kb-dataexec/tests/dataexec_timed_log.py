"""A log of times alone, row by row, written by the package's own writer: commands, services, transfers, launches."""

import numpy as np

from kb_dataexec.log import OPERAND_DTYPE, OPS_DTYPE, TABLE_DTYPES, MemoryLogWriter
from kb_messages import CallCause, MessageKind

COMPONENTS = {
    "dma_read": "pe_dma", "dma_write": "pe_dma", "fetch": "pe_fetch_store", "store": "pe_fetch_store",
    "gemm": "pe_gemm", "math": "pe_math",
}  # fmt: skip
"""The block of each stage."""


class TimedLog:
    """Collects rows. Times are picoseconds. `log` writes them, the ops in the order in which they were added."""

    def __init__(self):
        self._writer = MemoryLogWriter()
        self._ops = []
        self._pe, self._line = {}, {}
        self._tables = {name: [] for name in ("commands", "dispatches", "transfers", "kernels", "messages")}

    def command(
        self,
        seq,
        times,
        pe="pe0",
        line="kernel.py:1",
        after=CallCause.START,
        after_seq=-1,
        operand_seq=-1,
        operand_ps=0,
    ):
        """*times*: the call, issued, submitted, taken, decoded, fed, done."""
        self._pe[seq], self._line[seq] = pe, line
        texts = (self._writer.intern(text) for text in (pe, line, "command"))
        self._tables["commands"].append((seq, *texts, 1, 0, 1, *times, after_seq, after, operand_seq, operand_ps))

    def op(self, op_id, seq, tile, name, ready, start, end, out=None, **waits):
        """A service of stage *name* for tile number *tile* of command *seq*. *waits* by reason, such as `tcm_port=3`.

        The tile leaves the block at *out*, or at once.
        """
        row = np.zeros((), OPS_DTYPE)
        row["op_id"], row["command_seq"], row["tile_id"], row["stage_index"] = op_id, seq, tile, op_id
        row["t_ready_ps"], row["t_start_ps"], row["t_end_ps"] = ready, start, end
        row["t_out_ps"] = end if out is None else out
        texts = {
            "name": name,
            "component": f"{self._pe[seq]}.{COMPONENTS[name]}",
            "line": self._line[seq],
            "params": "",
        }
        for column, text in texts.items():
            row[column] = self._writer.intern(text)
        for reason, ps in waits.items():
            row[f"wait_{reason}_ps"] = ps
        self._ops.append(row)

    def tile(self, op_id, seq, tile, *stages):
        """The stages of a tile, each (name, start, end), that follow each other without a wait. Ids from *op_id* on."""
        for number, (name, start, end) in enumerate(stages):
            self.op(op_id + number, seq, tile, name, start, start, end)

    def dispatch(self, op_id, in_order_ps, claimed_ps):
        """The tile whose first op is *op_id* waited."""
        self._tables["dispatches"].append((op_id, in_order_ps, claimed_ps))

    def transfer(self, op_id, *times, latency=0, shared=0, behind=-1, memory="cube0.hbm0"):
        """*times*: sent, arrived, served, first, last."""
        row = (op_id, self._writer.intern(memory), *times, latency, shared, behind)
        self._tables["transfers"].append(row)

    def program(self, start, end, pe="pe0", launch=0, called=None):
        """A program on *pe*, called at its start unless stated."""
        called = start if called is None else called
        self._tables["kernels"].append((launch, self._writer.intern(pe), called, start, start, end))

    def message(self, launch, src, dst, sent, arrived, kind=MessageKind.REQUEST):
        """A message of a launch."""
        ends = (self._writer.intern(node) for node in (src, dst))
        self._tables["messages"].append((launch, *ends, kind, sent, arrived))

    def log(self, *without):
        """The log, without the tables that *without* names."""
        tables = {
            name: np.array(rows, TABLE_DTYPES[name]) for name, rows in self._tables.items() if name not in without
        }
        self._writer.append(np.array(self._ops, OPS_DTYPE), np.empty(0, OPERAND_DTYPE), tables)
        log = self._writer.close()
        log.check("timed log")
        return log


def segments(path):
    """The segments of *path*, in the order of time: (start, end, block, what, via)."""
    texts = ([path.strings[number] for number in column.tolist()] for column in (path.block, path.what, path.via))
    return list(zip(path.start_ps.tolist(), path.end_ps.tolist(), *texts, strict=True))


def totals(rows):
    """Picoseconds and segments of each of *rows* by block, what and via."""
    return {(row.block, row.what, row.via): (row.ps, row.segments) for row in rows}
