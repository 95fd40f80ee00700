"""Patches as tokens: a class token before the patches of each image, and positions added to all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from kb_engine import Host, TensorRef
from kb_messages import BenchmarkError
from kb_models.layout import Mesh, Tensors, Value, cut
from kb_models.layout.value import Array
from kb_models.ops.images.window import even
from kb_models.ops.linear import normal
from kb_models.ops.op import Op, Read

MOST_ROWS: Final = 32
"""Tokens that a program adds at once. Source: assumed; rows of thousands of elements fit the TCM."""


def kernel(
    tl: Any,
    x: Sequence[TensorRef],
    first: Sequence[TensorRef],
    positions: Sequence[TensorRef],
    y: Sequence[TensorRef],
    pes: int,
) -> None:
    """PE i of a cube adds its part of the positions to the patches of all images, and the first PE the class token."""
    cube, place = divmod(tl.program_id(), pes)
    patches = positions[cube].shape[0] - 1
    images = x[cube].shape[0] // patches
    for rows in even(*cut(patches, pes, place), MOST_ROWS):
        position = tl.load(positions[cube][rows.start + 1 : rows.stop + 1, :])
        spans = [slice(image * patches + rows.start, image * patches + rows.stop) for image in range(images)]
        loads = tl.ahead(tl.load_async(x[cube][span, :]) for span in spans)
        for image, (span, found) in enumerate(zip(spans, loads, strict=True)):
            tl.store(y[cube][span.start + image + 1 : span.stop + image + 1, :], found + position)
    if place == 0:
        token = tl.load(first[cube]) + tl.load(positions[cube][0:1, :])
        for image in range(images):
            tl.store(y[cube][image * (patches + 1) : image * (patches + 1) + 1, :], token)


class ClassToken(Op):
    """The sequences of a vision transformer: for each image a class token, then its *patches*, with their positions.

    X has the patches of whole images as rows, image by image, and all features in each cube. Y has *patches* + 1 rows
    for each image, split as X. Raises BenchmarkError where an image is split.
    """

    kind = "class_token"

    def __init__(self, name: str, mesh: Mesh, x: Value, patches: int) -> None:
        rows, width = x.shape
        if any(bound % patches for part in x.parts for bound in part.bounds[0]):
            got = f"{rows} rows in parts of {x.parts[0].shape[0]}"
            raise BenchmarkError(f"op {name}", got, f"whole images of {patches} patches in each part")
        if any(part.shape[1] != width for part in x.parts):
            raise BenchmarkError(f"op {name}", f"features split over {x.axes[1]}", "all features in each cube")
        self.x, self.mesh, self.patches = x, mesh, patches
        self.first, self.positions = (
            Value(
                name=f"{name}.{each}",
                shape=shape,
                dtype=x.dtype,
                parts=mesh.parts(shape, ("", "")),
                content=normal(shape, 1.0, x.dtype),
            )
            for each, shape in (("class", (1, width)), ("positions", (patches + 1, width)))
        )
        images = rows // patches
        shape = (images * (patches + 1), width)
        parts = mesh.parts(shape, x.axes, (patches + 1, 1))
        self.y = Value(name=name, shape=shape, dtype=x.dtype, parts=parts, axes=x.axes)
        self.flops = shape[0] * width
        super().__init__(name, (x, self.first, self.positions), (self.y,))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        x, first, positions, y = (tensors[each] for each in (self.x, self.first, self.positions, self.y))
        host.launch(kernel, x, first, positions, y, self.mesh.pes_per_cube, pes=self.mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The definition in float64. Source: Dosovitskiy et al., arXiv 2010.11929, equation 1."""
        x, first, positions = (read(each).astype(np.float64) for each in (self.x, self.first, self.positions))
        images = x.reshape(-1, self.patches, x.shape[1])
        tokens = np.concatenate((np.broadcast_to(first, (len(images), 1, x.shape[1])), images), axis=1) + positions
        return {self.y.name: tokens.reshape(self.y.shape)}
