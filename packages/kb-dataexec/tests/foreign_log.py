"""Writes the log of a product of two matrices as a folder. The script knows the documented format and nothing of kb."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np

a, b = (np.random.default_rng(0).random(shape, np.float32) for shape in ((4, 8), (8, 4)))
for name, array in (("a", a), ("b", b), ("c", a.astype(np.float64) @ b)):
    np.save(f"{name}.npy", array)

waits = [f"wait_{name}_ps" for name in ("channel", "tcm_port", "register_file", "compute_slot", "operand", "barrier")]
columns = {  # of ops, then of operands, by type
    "<i8": "op_id command_seq tile_id", "<i2": "stage_index kind", "<i4": "name component line params",
    "i8": " ".join(["t_ready_ps t_start_ps t_end_ps t_out_ps", *waits]),
}  # fmt: skip
ops = np.zeros(1, [(name, kind) for kind, names in columns.items() for name in names.split()])
ops["kind"], ops["component"], ops["line"], ops["params"] = 1, 1, 2, 3  # a GEMM; its name is string 0
columns = {"<i8": "op_id", "|i1": "role space dtype release", "<i4": "owner", "i8": "offset rows row_nbytes stride"}
rows = [(2, 0, 4, 32), (3, 128, 8, 16), (5, 4096, 4, 16)]  # role (A, B, OUT), offset, rows, bytes of a row
rows = [(0, role, 1, 0, 0, 0x400, offset, count, nbytes, nbytes) for role, offset, count, nbytes in rows]
operands = np.array(rows, [(name, kind) for kind, names in columns.items() for name in names.split()])

strings = b'"gemm"\n"mac array"\n"script.py:1"\n""\n'
further = [b""] * 6  # the auxiliary tables, which this log leaves out
sums = [sha256(part).hexdigest() for part in (ops.tobytes(), operands.tobytes(), *further, strings, b"")]
manifest = {"format": "kernbench-oplog", "version": 2, "chunks": 1, "ops": 1, "operands": 3, "strings": 4}
manifest |= {"immediate_nbytes": 0, "digest": sha256("\n".join(["kernbench-oplog 2", *sums, ""]).encode()).hexdigest()}
log = Path("log")
log.mkdir()
np.save(log / "ops-000000.npy", ops)
np.save(log / "operands-000000.npy", operands)
(log / "strings.jsonl").write_bytes(strings)
(log / "immediates.bin").write_bytes(b"")
(log / "manifest.json").write_text(json.dumps(manifest))
