"""Collectives that a kernel calls: every rank of a group calls the same one, with operands of one size.

Design: docs/design/messages.md
"""

from __future__ import annotations

from math import prod
from typing import Any

from kb_engine.collectives.acts import chunk_of
from kb_engine.collectives.algorithms import AUTO, acts_of, check_algorithm
from kb_engine.collectives.group import Group
from kb_engine.collectives.play import COMBINES, Operand, Player, line_of
from kb_engine.collectives.sizes import Sizes
from kb_engine.program.author.arguments import describe
from kb_engine.program.values.handles import Handle
from kb_engine.program.values.symbols import plain
from kb_engine.program.values.tensors import TensorRef
from kb_messages import KernelError


def all_reduce(
    tl: Any, group: Group, x: Operand, out: TensorRef | None = None, op: str = "sum", algorithm: str = AUTO
) -> Any:
    """Combines the *x* of all ranks of *group* by *op*, which is `sum`, `mean`, `max` or `min`, for every rank.

    *x* is a value in TCM or elements of a tensor; all ranks have the same number of elements of one dtype. The result
    goes to *out*, elements of a tensor, or is returned as a value of the shape of *x*. Sums of floats are f32 and sums
    of short integers are i32, in the order of the algorithm, and they are rounded once. *algorithm* is `ring`, `tree`,
    `two_level` or `auto`, which takes the one with the least estimated time. Raises KernelError for other words, for a
    program outside of *group*, and the errors of `tl.send` and `tl.recv`.
    """
    n = _size(tl, group, x, "all_reduce")
    found = _play(tl, group, "all_reduce", x, out, n, (0, 0), op, algorithm)
    return None if found is None else found.reshape(x.shape)


def reduce_scatter(
    tl: Any, group: Group, x: Operand, out: TensorRef | None = None, op: str = "sum", algorithm: str = AUTO
) -> Any:
    """Combines the *x* of all ranks of *group* as `all_reduce` does. Rank r gets chunk r of the result.

    Chunk r of n elements on P ranks begins at element `r * ceil(n / P)`, and has `ceil(n / P)` elements, at the end
    fewer or none. The chunk goes to *out*, or is returned as a vector; None for an empty chunk.
    """
    n, rank = _size(tl, group, x, "reduce_scatter"), group.rank(tl)
    firsts = 0, chunk_of(n, len(group), rank)[0]
    return _play(tl, group, "reduce_scatter", x, out, n, firsts, op, algorithm)


def all_gather(tl: Any, group: Group, x: Operand, out: TensorRef | None = None, algorithm: str = AUTO) -> Any:
    """Gives every rank of *group* the elements of all ranks, in the order of the ranks.

    All ranks have the same number of elements; with *out* of n elements, rank r has chunk r, as `reduce_scatter` cuts
    them. The result goes to *out*, or is returned as a value whose first axis counts ranks.
    """
    own, rank = _size(tl, group, x, "all_gather"), group.rank(tl)
    n = own * len(group) if out is None else _size(tl, group, out, "all_gather")
    start, stop = chunk_of(n, len(group), rank)
    if own != stop - start:
        got = f"all_gather of {own} elements of rank {rank} to {n} elements of {len(group)} ranks"
        raise KernelError(line_of(tl), got, f"{stop - start} elements for this rank")
    found = _play(tl, group, "all_gather", x, out, n, (start, 0), "", algorithm)
    return None if found is None else found.reshape(len(group), *x.shape)


def broadcast(
    tl: Any, group: Group, x: Operand, out: TensorRef | None = None, root: int = 0, algorithm: str = AUTO
) -> Any:
    """Gives every rank of *group* the elements *x* of rank *root*. The *x* of other ranks says shape and dtype alone.

    The result goes to *out*, or is returned as a value of the shape of *x*.
    """
    n, given = _size(tl, group, x, "broadcast"), plain(root)
    if not isinstance(given, int) or not 0 <= given < len(group):
        raise KernelError(line_of(tl), f"broadcast of rank {describe(root)}", f"0 to {len(group) - 1}")
    found = _play(tl, group, "broadcast", x, out, n, (0, 0), "", algorithm, given)
    return None if found is None else found.reshape(x.shape)


def all_to_all(tl: Any, group: Group, x: Operand, out: TensorRef | None = None, algorithm: str = AUTO) -> Any:
    """Sends chunk r of *x* to rank r of *group*, for all r. The chunk that came from rank s is chunk s of the result.

    *x* has a multiple of P elements on P ranks. The result goes to *out*, or is returned as a value of the shape of
    *x*. Raises KernelError for another number of elements.
    """
    n = _size(tl, group, x, "all_to_all")
    if n % len(group):
        raise KernelError(line_of(tl), f"all_to_all of {n} elements", f"a multiple of {len(group)}, the ranks")
    found = _play(tl, group, "all_to_all", x, out, n, (0, 0), "", algorithm)
    return None if found is None else found.reshape(x.shape)


def barrier(tl: Any, group: Group) -> None:
    """Returns when all ranks of *group* have called. The same as `tl.barrier(group)`."""
    group.rank(tl)
    tl.barrier(group)


def _play(
    tl: Any,
    group: Group,
    call: str,
    x: Operand,
    out: TensorRef | None,
    n: int,
    firsts: tuple[int, int],
    op: str,
    algorithm: str,
    root: int = 0,
) -> Any:
    """Plays *call* of *n* elements as the rank of this program."""
    line = line_of(tl)
    rank = group.rank(tl)
    if op and op not in COMBINES:
        raise KernelError(line, f"{call} with op={op!r}", f"one of {', '.join(COMBINES)}")
    if op == "mean" and not x.dtype.is_float:
        raise KernelError(line, f"the mean of {x.dtype}", "floats", "op='sum', and divide")
    if out is not None and (out.dtype is not x.dtype):
        raise KernelError(line, f"{call} of {x.dtype} to {out} of {out.dtype}", "equal dtypes")
    check_algorithm(call, algorithm, line)
    sizes = Sizes(n, x.dtype, op)
    is_in_tcm = isinstance(x, Handle), out is None
    chosen = group.chosen(call, sizes, is_in_tcm) if algorithm == AUTO else algorithm
    player = Player(tl, group, call, sizes, x, out, firsts)
    return player.play(acts_of(call, chosen, group, rank, sizes, root))


def _size(tl: Any, group: object, x: object, call: str) -> int:
    """The number of elements of *x*. Raises KernelError for anything but a value in TCM or elements of a tensor, and
    for a *group* that is no Group."""
    tl.leave("takes part in a collective")
    if not isinstance(group, Group):
        raise KernelError(line_of(tl), f"{call} of {describe(group)} as the group", "a Group, as Host.group makes one")
    if not isinstance(x, Handle | TensorRef):
        needs = "a value in TCM, or elements of a tensor"
        raise KernelError(line_of(tl), f"{call} of {describe(x)}", needs)
    return int(prod(map(plain, x.shape)))
