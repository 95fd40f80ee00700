"""Operands of a function of elements, aligned: their rows and columns for each row and column of the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kb_models.layout import Part, Value
from kb_models.models.builder import Builder
from kb_models.networks.axes import Atom, Laid, common_cuts, indices, merged, places, size_of
from kb_models.networks.graph import Shape
from kb_models.ops.elementwise import Operand, Places
from kb_models.ops.linear import normal


class Unaligned(Exception):
    """Operands that lie so differently that one row of the result reads several rows and columns of an operand."""


def aligned(
    m: Builder, name: str, main: Laid, given: Sequence[tuple[str, Laid | None]], shapes: Mapping[str, Shape]
) -> tuple[Laid, list[Operand]]:
    """The operands *given* by name, None for weights, of an op *name* whose result lies as *main*, and *main* with its
    axes cut as all operands need it.

    Weights are made as rows and columns of *main* read them. Raises Unaligned for operands in other layouts.
    """
    full = main.shape
    others = [_expanded(tensor, len(full)) for _, tensor in given if tensor is not None]
    sizes = []
    for number in range(len(full)):
        found = common_cuts(number, [main, *others])
        if found is None:
            raise Unaligned("axes that are cut differently")
        sizes.append(found)
    cut = main.reshaped([size for axis in sizes for size in axis])
    if cut is None:
        raise Unaligned("axes that are cut differently")
    index = {**indices(cut.rows)}, {**indices(cut.cols)}
    operands = []
    for each, tensor in given:
        if tensor is None:
            operands.append(_weight(m, f"{name}.{each}"[:120], cut, _broadcast(shapes[each], full), sizes, index))
        else:
            operands.append(_operand(_expanded(tensor, len(full)), full, cut, sizes, index))
    return cut._replace(axes=merged(cut.axes, [len(axis) for axis in sizes])), operands


def _expanded(tensor: Laid, rank: int) -> Laid:
    """*tensor* with axes of one element in front, up to *rank* axes."""
    return tensor._replace(axes=((),) * (rank - len(tensor.axes)) + tensor.axes)


def _broadcast(shape: Shape, full: Shape) -> tuple[bool, ...]:
    """For each axis of the result, whether an operand of *shape* has all of its elements."""
    wide = (1,) * (len(full) - len(shape)) + tuple(shape)
    return tuple(size == whole and whole > 1 for size, whole in zip(wide, full, strict=True))


def _operand(
    tensor: Laid, full: Shape, main: Laid, sizes: Sequence[Sequence[int]], index: tuple[dict[Atom, Places], ...]
) -> Operand:
    is_whole = [size_of(axis) == size for axis, size in zip(tensor.axes, full, strict=True)]
    shape = [size if whole else 1 for axis, whole in zip(sizes, is_whole, strict=True) for size in axis]
    cut = tensor.reshaped(shape)
    if cut is None:
        raise Unaligned("axes that are cut differently")
    mine = {own[0]: other[0] for own, other in zip(cut.axes, main.axes, strict=True) if own}
    maps = []
    for side, found, of in ((cut.rows, index[0], main.rows), (cut.cols, index[1], main.cols)):
        if any(mine[atom] not in found for atom in side):
            raise Unaligned("rows of one operand that are columns of another")
        maps.append(places(side, {atom: found[mine[atom]] for atom in side}, size_of(of)))
    return Operand(tensor.value, maps[0], maps[1])


def _weight(
    m: Builder,
    name: str,
    main: Laid,
    has: Sequence[bool],
    sizes: Sequence[Sequence[int]],
    index: tuple[dict[Atom, Places], ...],
) -> Operand:
    """A weight with the axes of which *has* is true, laid out as the rows and columns of *main*."""
    atoms = {
        atom
        for axis, whole in zip(merged(main.axes, [len(axis) for axis in sizes]), has, strict=True)
        if whole
        for atom in axis
    }
    maps, shape = [], []
    for side, found in ((main.rows, index[0]), (main.cols, index[1])):
        own = tuple(atom for atom in side if atom in atoms)
        maps.append(places(own, found, size_of(side)))
        shape.append(size_of(own))
    both = shape[0], shape[1]
    parts = m.mesh.parts(both, ("", ""))
    if shape[1] == main.value.shape[1]:
        parts = tuple(
            Part((rows.bounds[0], cols.bounds[1]), rows.cube)
            for rows, cols in zip(parts, main.value.parts, strict=True)
        )
    content = normal(both, 1.0, m.dtype)
    return Operand(Value(name=name, shape=both, dtype=m.dtype, parts=parts, axes=("", ""), content=content), *maps)
