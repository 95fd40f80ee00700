"""Vector programs: functions of MATH that one command applies, one after the other, to values in registers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kb_messages.dtypes import DType
from kb_messages.log.oplog import MathAttributes


class VectorValue(Struct, frozen=True, forbid_unknown_fields=True):
    """A value of a vector program: `rows x cols` elements of `dtype`."""

    rows: int
    cols: int
    dtype: DType

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.rows * self.cols * self.dtype.nbytes


class VectorOp(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`math` applied to the values with the numbers `arguments`, with `result`. `line` is the line of the kernel.

    `shapes` has rows and columns for each argument that is read, row by row, as a value of another shape, and None for
    the other arguments. It is empty where no argument is read in another shape.
    """

    math: MathAttributes
    arguments: tuple[int, ...]
    result: VectorValue
    line: str = ""
    shapes: tuple[tuple[int, int] | None, ...] = ()

    def read(self, values: Sequence[VectorValue]) -> list[VectorValue]:
        """The arguments in the shapes in which the op reads them. *values* are all values of the program."""
        given = [values[each] for each in self.arguments]
        if not self.shapes:
            return given
        return [
            each if shape is None else VectorValue(*shape, each.dtype)
            for each, shape in zip(given, self.shapes, strict=True)
        ]


class VectorProgram(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The work of a vector command, without its addresses.

    Values are numbered: first the inputs, then the results of the ops in their order. An op has arguments with lower
    numbers. `outputs` are the numbers of the values that the command stores.
    """

    inputs: tuple[VectorValue, ...]
    ops: tuple[VectorOp, ...]
    outputs: tuple[int, ...]

    def __hash__(self) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = hash((self.inputs, self.ops, self.outputs))
        return known

    @property
    def values(self) -> tuple[VectorValue, ...]:
        """All values in the order of their numbers: the inputs, then the result of each op."""
        return (*self.inputs, *(op.result for op in self.ops))
