"""`tl`: what a kernel may ask of the machine. Names and meaning follow Triton where it has them."""

from __future__ import annotations

from collections.abc import Sequence

from kb_engine.language.epilogue import SCOPES, Epilogue, EpilogueOps
from kb_engine.language.handles import Completion, CompositeHandle, LoadedTensor, Value
from kb_engine.language.issue import describe, dtype_named, in_tcm
from kb_engine.language.math import Argument, MathOps, tile_shape
from kb_engine.language.tensors import TensorRef
from kb_engine.pending import Producer
from kb_messages.commands import EpilogueOp, EpilogueScope, GemmCommand, LoadCommand, StoreCommand
from kb_messages.dtypes import DType
from kb_messages.errors import KernelError
from kb_messages.stages import TileShape


class Language(EpilogueOps, MathOps):
    """One program's `tl`."""

    def program_id(self, axis: int = 0) -> int:
        """This program's number in the launch, 0 up to `num_programs() - 1`. Only axis 0 exists."""
        self._check_axis(axis)
        return self._program_id

    def num_programs(self, axis: int = 0) -> int:
        """How many programs the launch has, one for each PE. Only axis 0 exists."""
        self._check_axis(axis)
        return self._num_programs

    def load(self, pointer: TensorRef) -> LoadedTensor:
        """Copy a rectangle of memory into TCM and wait for it.

        The value is that of the moment of the call, concrete unless a compute op has yet to produce some of its bytes.
        Raises KernelError when TCM is full or the bytes were never written.
        """
        line = self._line()
        src = self._memory_of(self._ref(pointer, "load", line), line)
        dst = self._allocate(src.rows, src.cols, src.dtype, line)
        producer = self._memory.pending.producer(src)
        value = None if producer is not None else self._memory.read_copy(src).reshape(pointer.shape)
        loaded = LoadedTensor(dst, pointer.shape, value, producer, self)
        self._submit(LoadCommand(src=src, dst=dst), line, loaded.completion, True)
        return loaded

    def store(self, pointer: TensorRef, value: Value) -> None:
        """Copy a value from TCM to a rectangle of memory of the same shape and dtype, and wait for it.

        The new bytes are visible to loads from the call on. Raises KernelError when shapes or dtypes differ.
        """
        line = self._line()
        dst = self._memory_of(self._ref(pointer, "store", line), line)
        src = in_tcm(value, line)
        if src is None:
            raise KernelError(
                line, f"tl.store of {describe(value)}", "a loaded tensor, or a composite's result in TCM (out=None)"
            )
        if (src.rows, src.cols, src.dtype) != (dst.rows, dst.cols, dst.dtype):
            raise KernelError(
                line,
                f"tl.store of {src.rows} x {src.cols} {src.dtype} to {pointer} of {dst.rows} x {dst.cols} {dst.dtype}",
                "equal shapes and dtypes",
            )
        if value.is_pending:
            producer = value._producer
            assert producer is not None
            self._memory.pending.mark(dst, producer)
        else:
            self._memory.write(dst, value.data)
        self._submit(StoreCommand(src=src, dst=dst), line, Completion(), True)

    def composite(
        self,
        op: str,
        a: TensorRef | Value,
        b: Argument | None = None,
        out: TensorRef | None = None,
        epilogue: Sequence[Epilogue] = (),
        tile: TileShape | tuple[int, ...] | str | None = None,
    ) -> CompositeHandle:
        """Start an op on whole tensors, tiled over the PE's engines, and return at once.

        `"gemm"` is `out = a @ b`, then the ops of *epilogue*, over DMA, fetch/store, GEMM and MATH. Any elementwise
        function (`"exp"`, `"add"`, ...) is `out = op(a)` or `op(a, b)` over DMA, fetch/store and MATH; *b* may be a
        number. A loaded operand already lies in TCM and is pinned there. With `out=None` the result stays in TCM.
        `tile` is M x N x K, or M x N for a function; without it the scheduler chooses. Raises KernelError for an op or
        epilogue this machine has not, for shapes that do not fit together, and for a tile that does not fit the PE.
        """
        line = self._line()
        if op != "gemm":
            if epilogue:
                raise KernelError(line, f"an epilogue of a composite {op!r}", "none: a gemm alone has one")
            return self._math_composite(op, [a] if b is None else [a, b], out, tile, line)
        if isinstance(b, (int, float)) or b is None:
            raise KernelError(line, f"b = {describe(b)}", "a slice of a tensor argument or a loaded tensor")
        ops = self._epilogue(epilogue, line)
        left, right = self._operand(a, "a", line), self._operand(b, "b", line)
        shape = tile_shape(tile, line)
        if out is None:
            target = self._allocate(left.rows, right.cols, _result_dtype(left.dtype, ops), line)
        else:
            target = self._memory_of(self._ref(out, "composite", line), line)
        command = GemmCommand(
            a=left,
            b=right,
            out=target,
            tile=shape,
            a_pinned=not isinstance(a, TensorRef),
            b_pinned=not isinstance(b, TensorRef),
            out_pinned=out is None,
            epilogue=ops,
        )
        producer = Producer("composite gemm", line)
        handle = CompositeHandle(target, out is None, producer, self)
        for operand in (a, b, *(op.operand for op in epilogue)):
            if isinstance(operand, Value):
                operand.readers.append(handle.completion)
        self._memory.pending.mark(target, producer)
        self._submit(command, line, handle.completion, False)
        return handle

    def wait(self, handle: Value) -> None:
        """Wait, in simulated time, until the handle's command is done. Its value stays pending."""
        completion = getattr(handle, "completion", None)
        if not isinstance(completion, Completion):
            raise KernelError(self._line(), f"tl.wait of {describe(handle)}", "what tl.composite or tl.load returned")
        self._wait(completion)

    def free(self, handle: Value) -> None:
        """Give a handle's TCM back before the kernel ends.

        Raises KernelError when it has none, is freed already, or is still on its way or read by a composite that is.
        """
        line = self._line()
        value: object = handle
        if isinstance(value, Value) and value.freed:
            raise KernelError(line, "a second tl.free of the same handle", "one")
        matrix = in_tcm(value, line)
        if matrix is None:
            raise KernelError(line, f"tl.free of {describe(handle)}", "a handle that holds TCM")
        if not handle.completion.done:
            raise KernelError(line, "tl.free of a result on its way", "a finished one", "call tl.wait first")
        if not all(reader.done for reader in handle.readers):
            raise KernelError(
                line, "tl.free of an operand of a composite on its way", "a finished one", "call tl.wait first"
            )
        handle.freed = True
        self._tcm.release(matrix.address)

    def _epilogue(self, epilogue: object, line: str) -> tuple[EpilogueOp, ...]:
        given = tuple(epilogue) if isinstance(epilogue, (tuple, list)) else (epilogue,)
        return tuple(self._epilogue_op(op, line) for op in given)

    def _epilogue_op(self, op: object, line: str) -> EpilogueOp:
        if not isinstance(op, Epilogue):
            raise KernelError(line, f"{describe(op)} in an epilogue", "a tuple of ops like (tl.bias(row), tl.relu())")
        if op.scope not in SCOPES:
            raise KernelError(line, f"tl.{op.op} with scope={op.scope!r}", " or ".join(map(repr, SCOPES)))
        return EpilogueOp(
            op=op.op,
            scope=EpilogueScope(op.scope),
            operand=None if op.operand is None else self._operand(op.operand, f"the operand of tl.{op.op}", line),
            operand_pinned=isinstance(op.operand, Value),
            scalars=op.scalars,
            dtype=None if op.dtype is None else dtype_named(op.dtype, line),
        )

    def _check_axis(self, axis: int) -> None:
        if axis != 0:
            raise KernelError(self._line(), f"axis {axis}", "0: a launch has one dimension")


def _result_dtype(dtype: DType, epilogue: tuple[EpilogueOp, ...]) -> DType:
    """What a result has that nothing else says it for: the operands' type, integers summed up or made floats."""
    result = dtype if dtype.is_float else dtype.accumulator
    for op in epilogue:
        if op.op == "dequant" and not result.is_float:
            result = DType.F32
        result = op.dtype or result
    return result
