"""Writes a long op log to disk and reads it back by chunks: records a second, bytes a record, peak memory.

    python benchmarks/speed/logsize.py                  # ten million records, about 3 GB in a temporary folder
    python benchmarks/speed/logsize.py --records 1000000

Writing and reading run in two processes, so that each has a peak of its own.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from kb_dataexec import FolderLogWriter
from kb_dataexec.log import OPERAND_DTYPE, OPS_DTYPE, LogFolder

CHUNK = 1 << 14
OPERANDS = 3
"""Operands of a record, about as many as in a tiled GEMM."""


def write(folder: Path, records: int) -> int:
    writer = FolderLogWriter(folder)
    texts = {name: writer.intern(name) for name in ("name", "component", "line", "params")}
    for first in range(0, records, CHUNK):
        ids = np.arange(first, min(first + CHUNK, records))
        ops, operands = np.zeros(len(ids), OPS_DTYPE), np.zeros(len(ids) * OPERANDS, OPERAND_DTYPE)
        ops["op_id"] = ops["command_seq"] = ids
        ops["t_ready_ps"] = ops["t_start_ps"] = ops["t_end_ps"] = ops["t_out_ps"] = ids
        for name, index in texts.items():
            ops[name] = index
        operands["op_id"] = np.repeat(ids, OPERANDS)
        operands["offset"] = operands["op_id"] * 64
        operands["space"], operands["rows"], operands["row_nbytes"], operands["stride"] = 1, 1, 64, 64
        writer.append(ops, operands)
    return writer.close().n_ops


def read(folder: Path, records: int) -> int:
    return sum(chunk.n_ops for chunk in LogFolder(folder).chunks())


def measure(step: str, folder: Path, records: int) -> None:
    began = perf_counter()
    found = {"write": write, "read": read}[step](folder, records)
    seconds = perf_counter() - began
    assert found == records, f"{found} records, not {records}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{step}: {records} records in {seconds:.1f} s ({records / seconds / 1e6:.2f} M/s), peak RSS {peak:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--step", choices=("write", "read"), help="one of the two alone, on --folder")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.step:
        measure(options.step, options.folder, options.records)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "log"
        for step in ("write", "read"):
            command = [sys.executable, __file__, "--step", step, "--folder", str(folder)]
            subprocess.run([*command, "--records", str(options.records)], check=True)
        nbytes = sum(file.stat().st_size for file in folder.iterdir())
        print(f"on disk: {nbytes / 2**20:.0f} MiB, {nbytes / options.records:.0f} bytes a record")


if __name__ == "__main__":
    main()
