"""Op: a decoded record, which reads, releases and writes its operands in a MemoryStore."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_messages import DTYPE_BY_CODE, DType, LogError


def op_name(op_id: int, *texts: str) -> str:
    """The name of an op in errors: its id, and in brackets its non-empty *texts* (name, component, kernel line)."""
    known = ", ".join(filter(None, texts))
    return f"op {op_id} ({known})" if known else f"op {op_id}"


DTYPES: Final[tuple[DType, ...]] = tuple(DTYPE_BY_CODE[code] for code in range(len(DTYPE_BY_CODE)))
"""The element types, indexed by their code."""


class OperandRow(NamedTuple):
    """A `kb_messages.Operand` as a NamedTuple, which is faster to make. `role` and `release` are plain integers."""

    role: int
    owner: int
    offset: int
    rows: int
    row_nbytes: int
    stride: int
    dtype: DType
    release: int

    @property
    def shape(self) -> tuple[int, int]:
        """Returns (rows, elements of a row)."""
        return self.rows, self.row_nbytes // self.dtype.nbytes

    @property
    def bytes_of(self) -> tuple[int, int, int, int, int]:
        """Returns (owner, offset, rows, row_nbytes, stride): the rectangle of bytes in its memory."""
        return self[1:6]

    def __str__(self) -> str:
        rows, cols = self.shape
        return f"{rows} x {cols} {self.dtype}"


class Op:
    """One record, decoded."""

    __slots__ = ("component", "kind", "line", "name", "op_id", "operands", "params")

    def __init__(
        self, op_id: int, kind: int, name: str, component: str, line: str, params: str, operands: list[OperandRow]
    ) -> None:
        self.op_id, self.kind, self.name, self.component = op_id, kind, name, component
        self.line, self.params, self.operands = line, params, operands

    @property
    def where(self) -> str:
        """The name of the op in errors."""
        return op_name(self.op_id, self.name, self.component, self.line)

    def error(self, got: str, needs: str) -> LogError:
        """Returns a LogError that names this op."""
        return LogError(self.where, got, needs)

    def read(self, store: MemoryStore, operands: Iterable[OperandRow]) -> list[Array]:
        """Reads *operands* as arrays of shape (rows, cols), then releases the operands with `release`.

        Raises StoreError, which names the op, for bytes that are not initialised or that are in no memory.
        """
        try:
            values = [store.read(*row.bytes_of, row.dtype) for row in operands]
            for row in operands:
                if row.release:
                    store.release(*row.bytes_of)
        except StoreError as error:
            raise self._located(error) from error
        return values

    def write(self, store: MemoryStore, operand: OperandRow, array: Array) -> None:
        """Writes *array* of shape (rows, cols) to the bytes of *operand*. Raises StoreError, which names the op."""
        try:
            store.check(*operand.bytes_of, operand.dtype)
            store.write(operand.owner, operand.offset, array, operand.stride)
        except StoreError as error:
            raise self._located(error) from error

    def _located(self, error: StoreError) -> StoreError:
        located = StoreError(f"{self.where}: {error.where}", error.got, error.needs, error.fix)
        located.byte, located.op_id = error.byte, self.op_id
        return located
