"""Writes a log as lines of JSON with all fields."""

import json

from kb_messages import MemorySpace, WaitReason


def line_of(record, immediates=b""):
    """A record as a line that leaves nothing out."""
    operands = []
    for operand in record.operands:
        fields = {"role": operand.role.name, "dtype": str(operand.dtype), "release": operand.release}
        fields |= {"space": str(operand.space)}
        fields |= {name: getattr(operand, name) for name in ("rows", "row_nbytes", "stride")}
        if operand.space is MemorySpace.IMMEDIATE:
            nbytes = (operand.rows - 1) * operand.stride + operand.row_nbytes
            fields["immediate"] = immediates[operand.offset : operand.offset + nbytes].hex()
        else:
            fields |= {"owner": operand.owner, "offset": operand.offset}
        operands.append(fields)
    names = ("op_id", "command_seq", "tile_id", "stage_index", "name", "component", "line")
    fields = {name: getattr(record, name) for name in (*names, "t_ready_ps", "t_start_ps", "t_end_ps", "t_out_ps")}
    waits = {f"wait_{reason.name.lower()}_ps": wait for reason, wait in zip(WaitReason, record.waits_ps, strict=True)}
    params = json.loads(record.params or "{}")
    return json.dumps(fields | waits | {"kind": record.kind.name.lower(), "params": params, "operands": operands})


def write_lines(path, log):
    path.write_text("".join(f"{line_of(record, log.immediates)}\n" for record in log.records()))
    return path
