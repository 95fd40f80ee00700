"""How busy blocks were in a launch: all work there is, whether it is on the path or hidden behind it."""

from __future__ import annotations

import numpy as np

from kb_dataexec.analysis.attribution import PathColumns
from kb_dataexec.analysis.path_rows import PathRows
from kb_dataexec.analysis.path_transfers import BUSY_WITH_OTHERS, MEMORY, PART_OF, TransferParts
from kb_dataexec.arrays.dtypes import Array


def busy_of(rows: PathRows, transfers: TransferParts, kernels: Array, whole: PathColumns) -> dict[str, int]:
    """Picoseconds of work by block: of the rows *kernels* of `kernels`, and of the launch on the path *whole*.

    A wait for a memory is no work. Where the bytes of a read held a memory for longer than they are counted there, as
    its links are slower, the time on the path counts.
    """
    strings, ops, commands = rows.log.strings, rows.ops, rows.commands
    busy: dict[str, int] = {}
    mine = np.isin(rows.kernel_of, kernels)

    def add(block: str, ps: int) -> None:
        if ps:
            busy[block] = busy.get(block, 0) + ps

    whole_services = mine[ops.command] & (transfers.of_op < 0)
    for component, ps in _sums(ops.component[whole_services], (ops.t_end - ops.t_start)[whole_services]):
        add(strings[component].rpartition(".")[2], ps)
    cut = mine[ops.command[transfers.op]]
    lengths, kinds = np.diff(transfers.bounds[cut], axis=1), transfers.kinds[cut]
    for kind, (block, what) in enumerate(PART_OF.values()):
        spent = np.where(kinds == kind, lengths, 0).sum(axis=1)
        if block != MEMORY:
            add(block, int(spent.sum()))
        elif what != BUSY_WITH_OTHERS:
            for memory, ps in _sums(transfers.memory[cut], spent):
                add(strings[memory].rpartition(".")[2].rstrip("0123456789"), ps)
    add("pe_scheduler", int((commands.t_decoded - commands.t_taken)[mine].sum()))
    issue_ps = commands.t_issued - commands.operand_ps - commands.t_call
    add("pe_cpu", int(issue_ps[mine].sum() + rows.beginning_ps[kernels].sum()))
    texts = whole.strings
    for segment in range(len(whole.start_ps)):
        ps = int(whole.end_ps[segment] - whole.start_ps[segment])
        block = texts[whole.block[segment]]
        if not texts[whole.pe[segment]]:
            add(block, ps)
        elif texts[whole.via[segment]] == "memory" and texts[whole.what[segment]] == "bytes":
            op = ops.find(whole.op_id[segment : segment + 1])
            add(block, max(0, ps - int(transfers.bytes_ps[transfers.of_op[op[0]]])))
    return dict(sorted(busy.items()))


def _sums(keys: Array, ps: Array) -> list[tuple[int, int]]:
    """Each of *keys* with the sum of its *ps*."""
    kinds, place = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(kinds), np.int64)
    np.add.at(sums, place.reshape(-1), ps)
    return list(zip(kinds.tolist(), sums.tolist(), strict=True))
