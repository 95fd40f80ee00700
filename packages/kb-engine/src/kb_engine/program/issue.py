"""What every `tl` call needs: the kernel's line, TCM, and a way to issue commands."""

from __future__ import annotations

from kb_engine.memory.allocator import OutOfMemoryError
from kb_engine.program.handles import Handle
from kb_engine.program.port import Completion, ProgramPort
from kb_engine.program.tensors import TensorRef
from kb_engine.program.transposed import refuse
from kb_messages import VIRTUAL_END, AddressError, DType, KernelError, Matrix, TileShape


class Issuer:
    """What the calls of a kernel language share: operands, TCM for results, and `wait`, all over a program port."""

    def __init__(self, port: ProgramPort) -> None:
        self._port = port

    def wait(self, handle: Handle) -> None:
        """Wait, in simulated time, until the handle's command is done. A pending value stays so."""
        completion = getattr(handle, "completion", None)
        if not isinstance(completion, Completion):
            raise KernelError(
                self._port.line(), f"tl.wait of {describe(handle)}", "what tl.composite or tl.load returned"
            )
        self._port.wait(completion)

    def _memory_of(self, ref: TensorRef, line: str) -> Matrix:
        """Where *ref* lies in physical memory. Raises KernelError where its virtual address is none of this PE's."""
        matrix = ref.matrix()
        if matrix.address >= VIRTUAL_END:
            return matrix
        try:
            return self._port.translate(matrix)
        except AddressError as error:
            raise KernelError(f"{line}: {ref} in {error.where}", error.got, error.needs, error.fix) from None

    def _operand(self, value: object, name: str, line: str) -> Matrix:
        if isinstance(value, TensorRef):
            return self._memory_of(value, line)
        refuse(value, f"{name} =", line)
        matrix = in_tcm(value, line)
        if matrix is None:
            raise KernelError(line, f"{name} = {describe(value)}", "a slice of a tensor argument or a loaded tensor")
        return matrix

    def _loaded(self, value: object, op: str, line: str) -> Matrix:
        if isinstance(value, TensorRef):
            raise KernelError(line, f"tl.{op} of a TensorRef", "a loaded tensor", "tl.load it, or use tl.composite")
        return self._operand(value, f"an argument of tl.{op}", line)

    def _allocate(self, rows: int, cols: int, dtype: DType, line: str) -> Matrix:
        try:
            address = self._port.tcm.allocate(rows * cols * dtype.nbytes, line)
        except OutOfMemoryError as error:
            raise KernelError(
                f"{line}: {error.where}", error.got, error.needs, "tl.free what is no longer needed"
            ) from None
        return Matrix.packed(rows, cols, dtype, address)

    def _ref(self, value: object, call: str, line: str) -> TensorRef:
        refuse(value, f"tl.{call} of", line)
        if not isinstance(value, TensorRef):
            raise KernelError(line, f"tl.{call} of {describe(value)}", "a slice of a tensor argument")
        return value


def tile_shape(tile: object, line: str, flat: bool = False) -> TileShape | None:
    """A `tile` argument: M x N x K, or M x N where the op has no depth (*flat*)."""
    if tile is None or isinstance(tile, TileShape):
        return tile
    if isinstance(tile, str):
        return TileShape.parse(f"{tile}x1" if flat else tile)
    given: tuple[object, ...] = tile if isinstance(tile, tuple) else ()
    sizes = [size for size in given if isinstance(size, int) and size > 0]
    wanted = 2 if flat else 3
    if len(given) != wanted or len(sizes) != wanted:
        raise KernelError(
            line, f"tile={tile!r}", "two positive integers (m, n)" if flat else "three positive integers (m, n, k)"
        )
    return TileShape(sizes[0], sizes[1], 1 if flat else sizes[2])


def dtype_named(dtype: object, line: str) -> DType:
    """A dtype as a kernel writes it. Raises KernelError for a name there is none of."""
    try:
        return DType(dtype)  # type: ignore[arg-type]
    except ValueError:
        raise KernelError(line, f"dtype {dtype!r}", f"one of {', '.join(DType)}") from None


def in_tcm(value: object, line: str) -> Matrix | None:
    """Where a handle lies in TCM, None for what does not. Raises KernelError for a handle that was freed."""
    if not isinstance(value, Handle):
        return None
    if value.freed:
        raise KernelError(line, f"{describe(value)} after tl.free", "one that still holds TCM")
    return value.matrix


def describe(value: object) -> str:
    """What kind of thing a kernel passed."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
