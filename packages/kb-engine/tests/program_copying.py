"""A tiny front end for the tests: a kernel gets a function that copies one part of memory to another through TCM."""

from __future__ import annotations

from kb_engine.program import Completion, ProgramPort, TensorRef
from kb_messages import LoadCommand, Matrix, StoreCommand


class Copying:
    """`copy(src, dst)`: a load and a store, over the program port alone."""

    def __init__(self, port: ProgramPort) -> None:
        self._port = port

    def __call__(self, src: TensorRef, dst: TensorRef) -> None:
        port, here, there = self._port, src.matrix(), dst.matrix()
        line = port.line(skip_file_prefixes=(__file__,))
        between = Matrix.packed(here.rows, here.cols, here.dtype, port.tcm.allocate(here.nbytes, line))
        port.memory.write(there, port.memory.read_copy(here))
        port.submit(LoadCommand(src=here, dst=between), line, Completion(), wait_until_done=True)
        stored = Completion()
        port.submit(StoreCommand(src=between, dst=there), line, stored, wait_until_done=False)
        port.wait(stored)
        port.tcm.release(between.address)
