"""GEMM ops: A (rows x k) @ B (k x cols), added to an accumulator. f32 for floats, i32 modulo 2^32 for integers."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.backends import current
from kb_dataexec.files import UnreadableJsonError, json_decoder
from kb_dataexec.log.rows import Op, OperandRow
from kb_dataexec.memory.store import MemoryStore
from kb_dataexec.ops.params import flaw
from kb_messages import GemmAttributes, Role


class DecodedGemm(NamedTuple):
    """The operands and attributes of a GEMM op. They fit together."""

    a: OperandRow
    b: OperandRow
    accumulator: OperandRow | None
    out: OperandRow
    attributes: GemmAttributes


_DECODE: Final = json_decoder(GemmAttributes)
_FIELDS: Final = ", ".join(GemmAttributes.__struct_fields__)


@lru_cache(maxsize=256)
def attributes_of(params: str) -> GemmAttributes | None:
    """Returns the attributes in the `params` of a GEMM op; None if they are no JSON of GemmAttributes."""
    try:
        return _DECODE(params or "{}")
    except UnreadableJsonError:
        return None


def decode(op: Op) -> DecodedGemm:
    """Returns the operands of *op* by role. Raises LogError for a missing one, and shapes or types that do not fit."""
    attributes = attributes_of(op.params)
    if attributes is None:
        raise op.error(
            f"params {op.params!r} ({flaw(_DECODE, op.params)})",
            f"JSON with no fields but {_FIELDS}, each true or false",
        )
    roles = [Role.A, Role.B, *([Role.ACC] if attributes.accumulate else []), Role.OUT]
    if sorted(row.role for row in op.operands) != roles:
        found = ", ".join(Role(row.role).name for row in op.operands) or "none"
        raise op.error(f"operands {found}", ", ".join(role.name for role in roles))
    by_role = {row.role: row for row in op.operands}
    gemm = DecodedGemm(by_role[Role.A], by_role[Role.B], by_role.get(Role.ACC), by_role[Role.OUT], attributes)
    _check_shapes(op, gemm)
    return gemm


def _check_shapes(op: Op, gemm: DecodedGemm) -> None:
    (rows, k), (k_of_b, cols) = gemm.a.shape, gemm.b.shape
    if gemm.attributes.transpose_a:
        rows, k = k, rows
    if gemm.attributes.transpose_b:
        k_of_b, cols = cols, k_of_b
    if k != k_of_b or gemm.out.shape != (rows, cols):
        raise op.error(f"A {gemm.a}, B {gemm.b}, OUT {gemm.out}", "rows x k, k x cols and rows x cols")
    if gemm.a.dtype.is_float != gemm.b.dtype.is_float or gemm.out.dtype is not gemm.a.dtype.accumulator:
        raise op.error(f"A {gemm.a}, B {gemm.b}, OUT {gemm.out}", "floats into f32, or integers into i32")
    acc = gemm.accumulator
    if acc is not None and (acc.bytes_of, acc.dtype) != (gemm.out.bytes_of, gemm.out.dtype):
        raise op.error(f"ACC at {acc.offset:#x}, OUT at {gemm.out.offset:#x}", "the same bytes and type for both")


def product(a: Array, b: Array) -> Array:
    """Returns a @ b by the backend in use, for matrices or stacks of any supported type.

    The result is f32 for floats and i32 (modulo 2^32) for integers.
    """
    return current().matmul(a, b)


def run(op: Op, store: MemoryStore) -> None:
    """Reads A, B and the accumulator, releases operands with `release`, and writes A @ B (+ accumulator)."""
    gemm = decode(op)
    reads = [gemm.a, gemm.b] if gemm.accumulator is None else [gemm.a, gemm.b, gemm.accumulator]
    a, b, *accumulator = op.read(store, reads)
    out = product(a.T if gemm.attributes.transpose_a else a, b.T if gemm.attributes.transpose_b else b)
    if accumulator:
        out += accumulator[0]
    op.write(store, gemm.out, out)
